"""A container runtime that calls CNI programs as CNI says, keeps their results, and judges answers by their version."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from msgspec import Struct

Raw = dict[str, Any]

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
CHECK_SINCE, GC_SINCE = "0.4.0", "1.1.0"

_LINK_FIELDS = {"name", "mac", "sandbox"}
_LINK_FIELDS_SINCE_1_1 = _LINK_FIELDS | {"mtu", "socketPath", "pciID"}
_RESULT_FIELDS = {"cniVersion", "interfaces", "ips", "routes", "dns"}
_ERROR_FIELDS = {"cniVersion", "code", "msg", "details"}


class Outcome(Struct, frozen=True):
    """What a program did."""

    status: int
    output: bytes
    complaint: str

    @property
    def result(self) -> Raw:
        """The result of a call that succeeded; {} for none."""
        assert self.status == 0, self
        body: Raw = json.loads(self.output or b"{}")
        return body

    @property
    def error(self) -> Raw:
        """The error of a call that failed, which is one as CNI wants it."""
        assert self.status == 1, self
        body: Raw = json.loads(self.output)
        assert body.keys() <= _ERROR_FIELDS and {"cniVersion", "code", "msg"} <= body.keys(), body
        assert isinstance(body["code"], int) and body["msg"], body
        return body


class CniRuntime:
    """Call the programs in `programs` for one container."""

    def __init__(self, programs: Path, container: str = "c0ffee", netns: str = "/run/netns/pod") -> None:
        self.programs = programs
        self.variables = {
            "CNI_CONTAINERID": container,
            "CNI_NETNS": netns,
            "CNI_IFNAME": "net1",
            "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u-1",
            "CNI_PATH": str(programs),
        }
        self._results: dict[tuple[str, str], Raw] = {}

    async def call(
        self, program: str, command: str, config: Raw | bytes, *without: str, **variables: str | bytes
    ) -> Outcome:
        """One call, with these variables instead of the usual ones, and without some."""
        environment: dict[str, str | bytes] = {**self.variables, "CNI_COMMAND": command, **variables}
        environment = {name: value for name, value in environment.items() if name not in without}
        process = await asyncio.create_subprocess_exec(
            self.programs / program,
            env={os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        text = config if isinstance(config, bytes) else json.dumps(config).encode()
        output, complaint = await process.communicate(text)
        assert process.returncode is not None
        return Outcome(process.returncode, output, complaint.decode())

    async def add(self, config: Raw, **variables: str) -> Raw:
        """ADD; keeps the result, which is one of the configuration's version."""
        outcome = await self.call(config["type"], "ADD", config, **variables)
        result = outcome.result
        self._judge(config, result, variables.get("CNI_IFNAME", self.variables["CNI_IFNAME"]))
        self._results[self._place(config, variables)] = result
        return result

    async def check(self, config: Raw, **variables: str) -> Outcome:
        """CHECK, with the result that ADD had."""
        given = {**config, "prevResult": self._results[self._place(config, variables)]}
        return self._silent(await self.call(config["type"], "CHECK", given, **variables))

    async def delete(self, config: Raw, **variables: str) -> Outcome:
        """DEL, with the result that ADD had where the version knows that."""
        previous = self._results.pop(self._place(config, variables), None)
        given = config
        if previous is not None and config["cniVersion"] >= CHECK_SINCE:
            given = {**config, "prevResult": previous}
        return self._silent(await self.call(config["type"], "DEL", given, **variables))

    async def collect(self, config: Raw, *valid: tuple[str, str]) -> Outcome:
        """GC: only these attachments, container and interface, are left."""
        listed = [{"containerID": container, "ifname": interface} for container, interface in valid]
        given = {**config, "cni.dev/valid-attachments": listed, "cni.dev/attachments": listed}
        names = [name for name in self.variables if name != "CNI_PATH"]
        return self._silent(await self.call(config["type"], "GC", given, *names))

    async def status(self, config: Raw) -> Outcome:
        """STATUS."""
        names = [name for name in self.variables if name != "CNI_PATH"]
        return self._silent(await self.call(config["type"], "STATUS", config, *names))

    def _place(self, config: Raw, variables: dict[str, str]) -> tuple[str, str]:
        return config["name"], variables.get("CNI_IFNAME", self.variables["CNI_IFNAME"])

    def _silent(self, outcome: Outcome) -> Outcome:
        assert outcome.status or not outcome.output, outcome
        return outcome

    def _judge(self, config: Raw, result: Raw, interface: str) -> None:
        version = config["cniVersion"]
        assert result["cniVersion"] == version
        assert result.keys() <= _RESULT_FIELDS
        fields = _LINK_FIELDS_SINCE_1_1 if version >= "1.1.0" else _LINK_FIELDS
        assert all(link.keys() <= fields and link["name"] for link in result["interfaces"])
        inside = [link for link in result["interfaces"] if link.get("sandbox")]
        assert [link["name"] for link in inside] == [interface]
        for address in result.get("ips", ()):
            assert ("version" in address) == (version < "1.0.0")
            assert 0 <= address.get("interface", 0) < len(result["interfaces"])
