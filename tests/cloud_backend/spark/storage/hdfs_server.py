"""An HDFS of one name node and one data node on loopback, from Hadoop's own jars, ended by their process ids."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from resurge.bench._downloads import JAVA, NotReachable, jars
from resurge.up.free_ports import free_ports
from tests.patience import wait_until
from tests.skips import skip_download

VERSION = "3.5.0"
SETTINGS = """\
<configuration>
<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:{0}</value></property>
<property><name>dfs.namenode.http-address</name><value>127.0.0.1:{1}</value></property>
<property><name>dfs.datanode.address</name><value>127.0.0.1:{2}</value></property>
<property><name>dfs.datanode.http.address</name><value>127.0.0.1:{3}</value></property>
<property><name>dfs.datanode.ipc.address</name><value>127.0.0.1:{4}</value></property>
<property><name>dfs.namenode.name.dir</name><value>{folder}/name</value></property>
<property><name>dfs.datanode.data.dir</name><value>{folder}/data</value></property>
<property><name>dfs.replication</name><value>1</value></property>
<property><name>dfs.permissions.enabled</name><value>false</value></property>
<property><name>dfs.namenode.safemode.extension</name><value>0</value></property>
<property><name>dfs.namenode.datanode.registration.ip-hostname-check</name><value>false</value></property>
</configuration>
"""
NAME, DATA = "org.apache.hadoop.hdfs.server.namenode.NameNode", "org.apache.hadoop.hdfs.server.datanode.DataNode"


class Hdfs:
    def __init__(self, folder: Path) -> None:
        try:
            self._jars = jars(
                f"hadoop-minicluster-{VERSION}", ("org.apache.hadoop", "hadoop-client-minicluster", VERSION)
            )
        except NotReachable as error:
            skip_download(str(error))
        self.folder = folder
        folder.mkdir(parents=True)
        ports = free_ports(5)
        self.uri, self._http = f"hdfs://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(SETTINGS.format(*ports, folder=folder))
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def _command(self, program: str, *options: str) -> list[str]:
        return [*JAVA, "-Xmx256m", "-cp", f"{self.folder}:{self._jars}/*", program, *options]

    def start(self, program: str) -> None:
        with (self.folder / f"{program.rpartition('.')[2]}.txt").open("ab") as output:
            self.nodes[program] = subprocess.Popen(
                self._command(program), stdout=output, stderr=output, env={**os.environ, "HADOOP_USER_NAME": "resurge"}
            )

    def kill(self, program: str) -> None:
        self.nodes[program].kill()
        self.nodes[program].wait()

    def __enter__(self) -> Hdfs:
        subprocess.run(self._command(NAME, "-format", "-nonInteractive"), check=True, capture_output=True)
        for program in (NAME, DATA):
            self.start(program)
        wait_until(self.is_writable, "a name node and a data node", again_after=requests.RequestException)
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.nodes:
            self.kill(program)

    def is_writable(self) -> bool:
        """Whether the name node answers and knows a data node that lives."""
        assert all(each.poll() is None for each in self.nodes.values()), "a node of HDFS ended"
        question = {"qry": "Hadoop:service=NameNode,name=FSNamesystemState"}
        beans = requests.get(f"{self._http}/jmx", params=question, timeout=10).json()["beans"]
        return any(each["NumLiveDataNodes"] == 1 for each in beans)


@contextmanager
def running(folder: Path) -> Iterator[Hdfs]:
    with Hdfs(folder) as server:
        yield server
