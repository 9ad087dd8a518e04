"""Called by python-for-android while it builds. It puts into the manifest what no option of the spec can.

`android.extra_manifest_xml` lands outside `<application>`, and components must be inside it.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

MANIFEST = Path("src/main/AndroidManifest.xml")
ANDROID = "http://schemas.android.com/apk/res/android"

COMPONENTS = """
<components xmlns:android="http://schemas.android.com/apk/res/android">
  <receiver android:name="org.resurge.phone.BootReceiver" android:exported="false">
    <intent-filter>
      <action android:name="android.intent.action.BOOT_COMPLETED" />
      <action android:name="android.intent.action.MY_PACKAGE_REPLACED" />
    </intent-filter>
  </receiver>
  <receiver
      android:name="org.resurge.phone.Wakes"
      android:exported="false"
      android:process=":service_Node" />
  <provider
      android:name="org.resurge.phone.ExportProvider"
      android:authorities="{package}.exports"
      android:exported="false"
      android:grantUriPermissions="true" />
</components>
"""


def with_components(manifest: str) -> str:
    """The manifest with our receiver and provider in its application, and the way back of Android 13 and later switched
    on: MainActivity registers for it. Applying it twice changes nothing."""
    ElementTree.register_namespace("android", ANDROID)
    root = ElementTree.fromstring(manifest)  # noqa: S314 - our own build just wrote it
    application = root.find("application")
    if application is None:
        raise ValueError("python-for-android's manifest has no <application>; its template changed")
    name = f"{{{ANDROID}}}name"
    application.set(f"{{{ANDROID}}}enableOnBackInvokedCallback", "true")
    there = {element.get(name) for element in application}
    package = next(str(element.get(name)) for element in application.findall("service")).rpartition(".")[0]
    components = COMPONENTS.strip().replace("{package}", package)
    for component in ElementTree.fromstring(components):  # noqa: S314 - our own text
        if component.get(name) not in there:
            application.append(component)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def after_apk_build(_toolchain: object) -> None:
    """The manifest is rendered, gradle has not run; python-for-android's working directory is the distribution."""
    MANIFEST.write_text(with_components(MANIFEST.read_text(encoding="utf-8")), encoding="utf-8")
