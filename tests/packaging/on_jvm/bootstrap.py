"""The end of a service as python-for-android's start.c makes it: Python's file is run, then the whole process exits.

    python bootstrap.py FILES_FOLDER [defect]

Java's `stopSelf` that stands after it is never reached, so what the system remembers of the service is only what Python
told it. Before it exits this writes `notices.json`: the notifications that would still stand.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from jnius import autoclass

ROOT = Path(__file__).resolve().parents[3]


def main(files: Path, fault: str) -> None:
    context = autoclass("android.content.Context")
    context.files = autoclass("java.io.File")(str(files))
    autoclass("org.kivy.android.PythonService").mService = autoclass("org.resurge.phone.ServiceNode")()
    os.environ["ANDROID_PRIVATE"] = str(files)
    os.chdir(ROOT)
    if fault == "defect":
        from mobile_app.service import foreground

        def broken(_options: object) -> None:
            raise RuntimeError("a defect of ours")

        foreground.run = broken
    code = 0
    try:
        runpy.run_path(str(ROOT / "service.py"), run_name="__main__")
    except BaseException:  # PyRun_SimpleFile prints it and returns
        traceback.print_exc()
        code = 1
    standing = autoclass("android.content.Context").services.get("notification").standing.values().toArray()
    said = [{"title": one.title, "text": one.text, "ongoing": one.ongoing} for one in standing]
    (files / "notices.json").write_text(json.dumps(said))
    os._exit(code)


main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
