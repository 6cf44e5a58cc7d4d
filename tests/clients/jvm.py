"""One Java virtual machine for many tests: they call Java objects through py4j, which comes with pyspark.

So tests of Java libraries are written in Python like all others, and need a Java runtime but no compiler.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from py4j import java_gateway, protocol
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lab.servers.zookeeper import jar_folder, java_program, zookeeper_jars
from tests.clients.spark import SHORT_LIVED


class Jvm:
    """`jvm.find("org.example.Thing")` is a class; its methods and constructor are called as in Java."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    def find(self, name: str) -> Any:
        """The class of this full name; `$` leads to a nested one."""
        found = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def array(self, name: str, *elements: object) -> Any:
        """A Java array of the class of this name, as a method with variable arguments wants it."""
        array = self._gateway.new_array(self.find(name), len(elements))
        for index, element in enumerate(elements):
            array[index] = element
        return array


class Callback:
    """What Java asks of every object; a subclass names its interfaces in a class `Java`."""

    # The names are Java's.
    def hashCode(self) -> int:
        return id(self) & 0x7FFF_FFFF

    def equals(self, other: Any) -> bool:
        # Java hands over its own stand-in of a Python object.
        return bool(other.hashCode() == self.hashCode())

    def toString(self) -> str:
        return type(self).__name__


@contextmanager
def java_virtual_machine() -> Iterator[Jvm]:
    """A JVM with all of Spark's jars, Curator and ZooKeeper among them. Raises BinaryMissing.

    A Callback may be handed to it where Java wants an object of one of its interfaces. While it runs, what
    Java raises comes as py4j's own exceptions, here and in a Spark session of the same process.
    """
    # A Spark session has py4j ask Spark's JVM for the class of each exception, by a number that there means
    # another object than in this JVM.
    with mock.patch.object(java_gateway, "get_return_value", protocol.get_return_value), _launched() as jvm:
        yield jvm


def _libraries() -> list[Path]:
    """Spark's jars but ZooKeeper's."""
    return sorted(jar for jar in jar_folder().glob("*.jar") if not jar.name.startswith("zookeeper"))


@contextmanager
def _launched() -> Iterator[Jvm]:
    port, secret, process = launch_gateway(
        port=0,
        classpath=os.pathsep.join(map(str, [*_libraries(), *zookeeper_jars()])),
        javaopts=[*("-Xmx256m", *SHORT_LIVED.split()), "-Dorg.apache.logging.log4j.level=OFF"],
        java_path=java_program(),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    token = secret.decode()
    try:
        # What is launched shares its threads among Python's. Locks belong to threads: start a server that
        # gives each thread of Python one of Java.
        launcher = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        builder = getattr(launcher.jvm.py4j, "ClientServer$ClientServerBuilder")()
        pinned = builder.javaPort(0).pythonPort(0).authToken(token).build()
        gateway = ClientServer(
            java_parameters=JavaParameters(
                port=pinned.getJavaServer().getListeningPort(), auth_token=token, auto_convert=True
            ),
            python_parameters=PythonParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        try:
            # Java has to learn which port Python's side has got.
            server = pinned.getJavaServer()
            address = server.getCallbackClient().getAddress()
            server.resetCallbackClient(address, gateway.get_callback_server().get_listening_port())
            yield Jvm(gateway)
        finally:
            gateway.shutdown()
            launcher.shutdown()
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
