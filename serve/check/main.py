"""`zketcd check [OPTIONS of serve] [--json]`: prints what is good, doubtful or wrong, and changes nothing."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence

from proxy import config as configuration
from proxy.config import Config
from proxy.etcd.access import Access
from proxy.options.parser import OptionParser
from serve.check.etcd import check_etcd
from serve.check.finding import Finding, document, exit_code, page
from serve.check.host import check_host

_DESCRIPTION = """Check a configuration of `zketcd serve`, with the same options: files, ports, and each
member of etcd. Nothing is changed. The exit code is 0 if all is good, 1 if something is doubtful, 2 if
something is wrong."""


def parser(command: str) -> OptionParser:
    """The parser of the command."""
    made = configuration.parser(command)
    made.description = _DESCRIPTION
    made.add_argument("--json", action="store_true", help="print JSON instead of text")
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Print the findings; the exit code is that of the worst."""
    made = parser(command)
    as_json = made.parse_args(arguments).json
    config = configuration.parse_with(made, arguments)
    logging.basicConfig(level=logging.ERROR)
    findings = list(check_host(config))
    if config.etcd:
        findings += _of_etcd(config)
    print(json.dumps(document(findings), indent=2) if as_json else page(findings))
    return exit_code(findings)


def _of_etcd(config: Config) -> list[Finding]:
    try:
        tls = Access(config.etcd, config.etcd_access).tls()
    except (OSError, ValueError):
        return []  # already found among the files
    return asyncio.run(_listed(check_etcd(config, tls)))


async def _listed(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in findings]
