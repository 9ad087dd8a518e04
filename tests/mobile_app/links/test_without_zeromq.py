"""A device where pyzmq is not installed: HTTP alone is enough, and what needs a relay says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WITHOUT = """
import json, pathlib, sys, threading
sys.modules["zmq"] = None  # any import of it fails, as where it is not installed
from mobile_app.headless import RunOptions, run
from mobile_app.links.relay import Relay, RelayLink
from mobile_app.sensors.choose import parse_choices
from mobile_app.service.connection import ServiceClient, ServiceServer
from shared.errors import UsageError
from shared.stream.program import load_program

home = pathlib.Path(sys.argv[1])
(home / "settings.toml").write_text("spool_mb = 1")
(home / "program.py").write_text("import resurge as rs; rs.sensor('gps', every='1s').sync('raw', within='1s')")
codes = []
for make in (lambda: RelayLink("tcp://127.0.0.1:1"), lambda: Relay("tcp://127.0.0.1:1", lambda: None)):
    try:
        make()
    except UsageError as refused:
        codes.append(refused.code)
stop = threading.Event()
options = RunOptions(home=home, sensors=parse_choices(["gps=synthetic:1"]), speed=60, stop=stop,
                     plan=load_program(home / "program.py"), on_view=lambda view: view["spooled"] and stop.set())
print(json.dumps({"spooled": run(options)["spooled"], "codes": codes}))
"""


def test_a_node_runs_where_zeromq_is_not_installed(tmp_path):
    command = [sys.executable, "-c", WITHOUT, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["spooled"] > 0
    assert answer["codes"] == ["relay-zmq", "relay-zmq"]
