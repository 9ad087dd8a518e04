"""A day in the life of the phone's code, short: what runs on a device, run as it runs there.

    python -OO device_run.py APP_FOLDER [--small] [--plan FILE]

Only APP_FOLDER (what buildozer puts into the APK) is on the path. Under -OO there are no asserts and no docstrings, so
every check raises by itself. Used on this machine's Python, on the phone's (3.14) and under aarch64. Prints one line
per part, an app's own operators among them when a plan that needs them is given, and ends with "device run: all parts passed".
"""

import importlib
import json
import os
import pkgutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

APP = Path(sys.argv[1]).resolve()
SMALL = "--small" in sys.argv
WITHIN_S = 900.0 if SMALL else 120.0  # an emulator is slow, a busy machine under it slower
sys.path[:] = [str(APP), *(entry for entry in sys.path if entry and Path(entry).resolve() != Path.cwd())]
FOR_A_SCREEN = {"kivy", "jnius", "plyer", "android"}  # only there when a phone, or a desktop's tests, has them


class Failed(Exception):
    pass


def need(condition: object, what: str) -> None:
    if not condition:
        raise Failed(what)


def import_everything() -> str:
    """Every module of the APK; what only a screen or Android itself brings may be absent, nothing else."""
    imported, absent = 0, set()
    for package in ("shared", "mobile_app"):
        for module in pkgutil.walk_packages([str(APP / package)], f"{package}."):
            try:
                importlib.import_module(module.name)
                imported += 1
            except ModuleNotFoundError as error:
                missing = (error.name or "").partition(".")[0]
                need(missing in FOR_A_SCREEN, f"{module.name} needs {error.name}, which the APK lacks")
                absent.add(missing)
            except Exception as error:  # jnius looks for a Java machine when it is imported
                need("jnius" in sys.modules or "jnius" in repr(error).lower(), f"{module.name}: {error!r}")
    need("shared.engine.pipeline" in sys.modules, "the engine was not imported")
    return f"{imported} modules; not here: {', '.join(sorted(absent)) or 'none'}"


def program(folder: Path) -> Path:
    path = folder / "walk.py"
    path.write_text(
        "from shared.stream.sources import sensor\n"
        "from shared.stream.formulas import col\n"
        "gps = sensor('gps', every='1s').where(col.accuracy < 500)\n"
        "gps.sync('positions', within='5s')\n"
        "sensor('accelerometer', every='20ms').sync('motion', within='2s')\n"
    )
    return path


def record(home: Path, folder: Path, seconds: float) -> dict:
    from mobile_app.headless import RunOptions, run
    from mobile_app.sensors.choose import parse_choices
    from shared.stream.program import load_program

    sensors = parse_choices(["gps=synthetic:7", "accelerometer=synthetic:7"])
    return run(RunOptions(home=home, plan=load_program(program(folder)), sensors=sensors, speed=20.0, for_s=seconds))


def records_and_survives_a_kill(folder: Path) -> str:
    """A node in a process of its own is killed in the middle; what was spooled is there, and it goes on."""
    home = folder / "home"
    home.mkdir()
    (home / "settings.toml").write_text("spool_mb = 4\nloss_window_s = 0.2\n")
    child = subprocess.Popen([*_python(), __file__, str(APP), "--record", str(home)], stdout=subprocess.DEVNULL)
    status, end = home / "status.json", time.monotonic() + WITHIN_S
    spooled = 0
    while not spooled:
        need(time.monotonic() < end and child.poll() is None, "the child recorded nothing")
        time.sleep(0.1)
        spooled = json.loads(status.read_bytes())["spooled"] if status.exists() else 0
    child.send_signal(signal.SIGKILL)
    child.wait()
    account = record(home, folder, 1.0 if SMALL else 2.0)
    need(account["spooled"] >= spooled, f"{spooled} were spooled before the kill, {account['spooled']} after it")
    need(account["produced"] == account["spooled"] + account["delivered"] + account["ledgered"], f"lost: {account}")
    return f"{spooled} spooled before the kill, {account['spooled']} after it"


def _python() -> list[str]:
    """This interpreter, also where an emulator runs it."""
    return [*json.loads(os.environ.get("DEVICE_PYTHON", "[]"))] or [sys.executable, *(["-OO"] * (not __debug__))]


def columns_come_back_bit_for_bit(_folder: Path) -> str:
    import numpy as np

    from shared.batch import Batch
    from shared.language.schema import Schema
    from shared.wire.columns import decode, encode

    rng = np.random.default_rng(5)
    schema = Schema.of({"lat": "float64", "n": "int32", "name": "str", "on": "bool"})
    values = rng.normal(47.0, 0.01, 5000)
    values[7] = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]  # a NaN with a payload
    columns = {
        "lat": values, "n": rng.integers(-(2**31), 2**31, 5000).astype(np.int32),
        "name": np.asarray(["a", "ä", ""] * 1666 + ["z", "z"], dtype=np.dtypes.StringDType()), "on": values > 47,
    }  # fmt: skip
    batch = Batch.of(schema, columns, np.cumsum(rng.integers(1, 99_999, 5000)), lo=3, frontier_us=0)
    codec, body = encode(batch)
    back = decode(codec, body, schema, lo=batch.lo, hi=batch.hi, applied=batch.applied)
    need(np.array_equal(back.time_us, batch.time_us), "times changed")
    need(back.columns["lat"].tobytes() == values.tobytes(), "floats changed")
    need(all(np.array_equal(back.columns[name], columns[name]) for name in ("n", "name", "on")), "columns changed")
    return f"5,000 rows in {len(body)} bytes, {sys.byteorder}-endian"


def a_screen_talks_to_the_service(folder: Path) -> str:
    from mobile_app.service.connection import ServiceClient, ServiceServer

    home = folder / "link"
    home.mkdir()
    server = ServiceServer(home, lambda call, arguments: {"call": call, **arguments})
    client = ServiceClient.open(home, timeout_s=WITHIN_S)
    need(client.view() == {"call": "view"}, "the service answered something else")
    client.close()
    server.close()
    return "asked and answered"


def works_without_zeromq(_folder: Path) -> str:
    """HTTP alone is enough: a process that cannot import zmq runs the node's modules all the same."""
    code = "import sys; sys.modules['zmq'] = None; sys.path.insert(0, sys.argv[1]); import mobile_app.headless"
    done = subprocess.run([*_python(), "-c", code, str(APP)], capture_output=True, check=False)
    need(done.returncode == 0, done.stderr.decode(errors="replace")[-2000:])
    return "imported without it"


def the_service_serves(folder: Path) -> str:
    """The Android service's own loop, with its notification and its mark for the next boot."""
    from mobile_app.home.files import RESUME_FILE
    from mobile_app.service.connection import ServiceClient, ServiceGone
    from mobile_app.service.foreground import serve

    files, shown, stop = folder / "files", [], threading.Event()
    files.mkdir()
    thread = threading.Thread(
        target=serve, args=(files, lambda *text: shown.append(text)), kwargs={"stop": stop, "say": lambda _: None}
    )
    thread.start()
    end = time.monotonic() + WITHIN_S
    client = None
    while client is None or not shown:
        need(time.monotonic() < end and thread.is_alive(), "the service did not come up")
        time.sleep(0.05)
        try:
            client = client or ServiceClient.open(files / "data", timeout_s=WITHIN_S)
        except ServiceGone:
            continue
    need((files / RESUME_FILE).exists(), "a restart of the phone would not go on")
    need("running" in client.view() or "device" in client.view(), "no view")
    client.close()
    stop.set()
    thread.join(WITHIN_S)
    need(not thread.is_alive() and not (files / RESUME_FILE).exists(), "the service did not end in order")
    return f"showed {shown[-1]}"


def runs_its_own_operators(folder: Path) -> str:
    """A node from the app's own files runs a plan with the operators that the app was built with."""
    from mobile_app.headless import RunOptions, run
    from mobile_app.own_operators import bundle, import_bundled
    from mobile_app.sensors.choose import parse_choices
    from mobile_app.sensors.synthetic import SENSORS
    from shared.plan.encoding import decode_plan
    from shared.plan.wellformed import operators_on_device

    built = bundle()
    need(built is not None, "the app has no list of its operators")
    home = folder / "own"
    home.mkdir()
    (home / "settings.toml").write_text("spool_mb = 4\nloss_window_s = 0.2\n")
    encoded = Path(sys.argv[sys.argv.index("--plan") + 1]).read_bytes()
    views, heard = [], []
    import_bundled()  # as a node does before its gateway sends the plan: decoding needs the operators
    plan = decode_plan(encoded)
    wanted = operators_on_device(plan)
    need(wanted, "the plan needs no operator of the app's own")
    sensors = parse_choices([f"{each.name}=synthetic:7" for each in plan.sensors if each.name in SENSORS])
    account = run(
        RunOptions(home=home, plan=plan, sensors=sensors, speed=100.0, for_s=20.0 if SMALL else 6.0,
                   on_view=views.append, say=heard.append)
    )  # fmt: skip
    troubles = [entry for entry in views[-1]["health"] if entry["code"] == "operator-failed"]
    need(not troubles, f"{troubles} {heard}")
    need(views[-1]["build"] == built.build, f"the node says it is {views[-1]['build']!r}")
    need(wanted <= set(views[-1]["operators"]), f"the node says it has {views[-1]['operators']}")
    need(account["produced"] == account["spooled"] + account["delivered"] + account["ledgered"], f"lost: {account}")
    return f"{', '.join(sorted(wanted))} made {account['produced']} rows"


PARTS = (
    columns_come_back_bit_for_bit, records_and_survives_a_kill, a_screen_talks_to_the_service, works_without_zeromq,
    the_service_serves,
)  # fmt: skip


def main() -> None:
    if "--record" in sys.argv:
        home = Path(sys.argv[sys.argv.index("--record") + 1])
        record(home, home.parent, 600.0)
        return
    print(f"python {sys.version.split()[0]} {os.uname().machine} optimised {sys.flags.optimize}", flush=True)
    print(f"import_everything: {import_everything()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in (*PARTS, *([runs_its_own_operators] if "--plan" in sys.argv else [])):
            began = time.monotonic()
            print(f"{part.__name__}: {part(Path(folder))} ({time.monotonic() - began:.1f} s)", flush=True)
    print("device run: all parts passed", flush=True)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        print(traceback.format_exc(), flush=True)  # Kivy, imported above, has taken stderr for itself
        raise
