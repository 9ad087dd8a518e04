"""Everything about the APK that can be shown without Android's SDK: `make apk-gate`."""
