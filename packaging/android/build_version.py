"""The two numbers an APK takes from its commit, as lines for a build's environment.

    python packaging/android/build_version.py [COMMIT] >> "$GITHUB_ENV"

python-for-android unpacks the app's Python again when its `private_version` differs, and that is made of the version,
the numeric version and SOURCE_DATE_EPOCH: with a fixed epoch an update would go on running the old code. Android takes
an APK for an update only when its numeric version is larger. Both come from the time of the commit, so the same commit
still gives the same APK.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def environment(commit: str = "HEAD", repository: Path = Path()) -> dict[str, str]:
    """What a build of this commit is told."""
    command = ["git", "-C", str(repository), "show", "-s", "--format=%ct", commit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return numbers(int(done.stdout.strip()))


def numbers(seconds: int) -> dict[str, str]:
    """The same, of a commit made at this time (seconds since 1970)."""
    # Minutes: seconds would reach Android's largest number (2.1 billion) in 2036.
    return {"SOURCE_DATE_EPOCH": str(seconds), "APP_ANDROID_NUMERIC_VERSION": str(seconds // 60)}


if __name__ == "__main__":
    for name, value in environment(*sys.argv[1:2]).items():
        print(f"{name}={value}")  # noqa: T201
