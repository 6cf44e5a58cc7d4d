"""ZooKeeper's settings: which option each one is, which are dangerous to ignore, which mean nothing here.

The names are those of zoo.cfg: ZooKeeper's system properties without the leading `zookeeper.`
(QuorumPeerConfig.parseProperties). Addresses of ports are combined from several settings: see zoo_cfg.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

_PROVIDERS = frozenset(
    f"org.apache.zookeeper.server.auth.{name}AuthenticationProvider"
    for name in ("Digest", "IP", "SASL", "X509")
)
_TLS_VERSIONS = {"TLSv1.2": "1.2", "TLSv1.3": "1.3"}


class Use(NamedTuple):
    """A setting that is an option here. `convert` gives the option's text, None for its default."""

    option: str  # its name in the namespace
    convert: Callable[[str], str | None] = str


class Refuse(NamedTuple):
    """A setting that may not be ignored: `reason` gives why its value stops the start, "" if it does not."""

    reason: Callable[[str], str]
    unless: str = ""  # an option that takes the setting's place


class Combined(NamedTuple):
    """A setting that zoo_cfg reads together with others."""


class Nothing(NamedTuple):
    """A setting without a meaning here: of the ensemble, the JVM, files that zketcd does not have."""


def _whole(text: str) -> str:
    """Java reads hexadecimal numbers too (Integer.getInteger)."""
    try:
        return str(int(text, 0))
    except ValueError:
        return text


def _timeout(text: str) -> str | None:
    return None if text == "-1" else text  # -1: 2 and 20 ticks


def _switch(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"{text!r} is neither true nor false")
    return "on" if text.lower() == "true" else "off"


def _oldest(text: str) -> str:
    """The oldest version of TLS in a list of Java's names. Above it all are accepted."""
    found = [_TLS_VERSIONS.get(name.strip()) for name in text.split(",")]
    known = sorted(version for version in found if version)
    if not known:
        raise ArgumentTypeError(f"{text!r} names no version of TLS that zketcd has: TLSv1.2, TLSv1.3")
    return known[0]


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentTypeError(f"it cannot be read: {error}") from error


def _if_true(reason: str) -> Callable[[str], str]:
    return lambda value: reason if value.lower() in ("true", "yes") else ""


def _if_false(reason: str) -> Callable[[str], str]:
    return lambda value: reason if value.lower() == "false" else ""


def _if_other_than(expected: str, reason: str) -> Callable[[str], str]:
    return lambda value: "" if value.upper() == expected else reason


def _provider(value: str) -> str:
    if value in _PROVIDERS:
        return ""
    return "zketcd has only digest, ip, sasl and x509: identities of this provider would get no rights"


def _store_type(value: str) -> str:
    if value.upper() in ("", "PEM"):
        return ""
    return "only PEM files are read; keytool and openssl pkcs12 convert others"


def _always(reason: str) -> Callable[[str], str]:
    return lambda value: reason if value else ""


_COMBINED = Combined()
_NOTHING = Nothing()

KEYS: Mapping[str, Use | Refuse | Combined | Nothing] = {
    # Addresses.
    **dict.fromkeys(
        (
            "clientPort",
            "clientPortAddress",
            "secureClientPort",
            "secureClientPortAddress",
            "client.portUnification",
            "admin.enableServer",
            "admin.serverAddress",
            "admin.serverPort",
        ),
        _COMBINED,
    ),
    # Sessions, limits.
    "tickTime": Use("tick_time"),
    "minSessionTimeout": Use("min_session_timeout", _timeout),
    "maxSessionTimeout": Use("max_session_timeout", _timeout),
    "maxClientCnxns": Use("max_client_connections"),
    "maxCnxns": Use("max_connections"),
    "globalOutstandingLimit": Use("global_outstanding_limit"),
    "jute.maxbuffer": Use("max_frame", _whole),
    # Rules.
    "extendedTypesEnabled": Use("extended_types_enabled"),
    "enforceQuota": Use("enforce_quota"),
    "readonlymode.enabled": Use("read_only_mode", _switch),
    "znode.container.checkIntervalMs": Use("container_check_interval"),
    "znode.container.maxPerMinute": Use("container_max_per_minute"),
    "znode.container.maxNeverUsedIntervalMs": Use("container_max_never_used"),
    "4lw.commands.whitelist": Use("four_letter_words"),
    "jvm.pause.warn-threshold.ms": Use("pause_warn_ms", _whole),
    # Who may do what.
    "DigestAuthenticationProvider.superDigest": Use("super_digest"),
    "DigestAuthenticationProvider.digestAlg": Refuse(
        _if_other_than("SHA1", "zketcd hashes passwords with SHA1: ACLs with other hashes would not match")
    ),
    "DigestAuthenticationProvider.enabled": Refuse(_if_false("zketcd cannot turn the scheme digest off")),
    "X509AuthenticationProvider.superUser": Use("x509_super_user"),
    "ssl.authProvider": Refuse(_if_other_than("X509", "zketcd has no provider but x509")),
    **dict.fromkeys(
        (
            "requireClientAuthScheme",
            "sessionRequireClientSASLAuth",
            "enforce.auth.enabled",
            "enforce.auth.schemes",
            "superUser",
        ),
        _COMBINED,
    ),
    "allowSaslFailedClients": Use("allow_sasl_failed_clients"),
    "kerberos.removeHostFromPrincipal": Use("kerberos_remove_host"),
    "kerberos.removeRealmFromPrincipal": Use("kerberos_remove_realm"),
    "sasl.serverconfig": Use("jaas_section"),
    "security.auth_to_local": Refuse(
        _if_other_than("DEFAULT", "zketcd has no rules for principals: users would get other names in ACLs")
    ),
    "letAnySaslUserDoX": Refuse(
        _always("zketcd has no such entry of ACLs: clients would get NOAUTH where they had access")
    ),
    "SASLAuthenticationProvider.superPassword": Refuse(
        _always("give the user super this password where the users are, and remove the setting")
    ),
    "skipACL": Refuse(_if_true("zketcd always checks ACLs: clients would get NOAUTH where they had access")),
    # The audit log goes where all messages go, as in ZooKeeper.
    "audit.enable": Use("audit_log", lambda value: "-" if _switch(value) == "on" else ""),
    "audit.impl.class": Refuse(
        _if_other_than(
            "ORG.APACHE.ZOOKEEPER.AUDIT.SLF4JAUDITLOGGER", "zketcd cannot load Java classes: use --audit-log"
        )
    ),
    # TLS.
    "ssl.keyStore.location": _COMBINED,
    "ssl.keyStore.type": Refuse(_store_type, unless="tls_cert"),
    "ssl.keyStore.password": Use("tls_key_password"),
    "ssl.keyStore.passwordPath": Use("tls_key_password", _first_line),
    "ssl.trustStore.location": _COMBINED,
    "ssl.trustStore.type": Refuse(_store_type, unless="tls_ca"),
    "ssl.trustStore.password": _NOTHING,
    "ssl.trustStore.passwordPath": _NOTHING,
    "ssl.clientAuth": Use("tls_client_auth", str.lower),
    "ssl.protocol": _NOTHING,
    "ssl.enabledProtocols": Use("tls_min_version", _oldest),
    "ssl.ciphersuites": Refuse(
        _always("these are Java's names: give OpenSSL's with --tls-ciphers"), unless="tls_ciphers"
    ),
    "ssl.crl": Refuse(_if_true("revoked certificates would be accepted")),
    "ssl.ocsp": Refuse(_if_true("revoked certificates would be accepted")),
    "ssl.context.supplier.class": Refuse(_always("zketcd cannot load Java classes")),
    "ssl.clientHostnameVerification": Refuse(_if_true("zketcd does not check the host names of clients")),
    # The admin server's own limits.
    "admin.forceHttps": Refuse(_if_true("give --admin-tls on in its place, or --admin-listen none")),
    "admin.needClientAuth": Refuse(_if_true("zketcd's admin server demands none: use --admin-listen none")),
    # Without a meaning.
    **dict.fromkeys(
        (
            # The ensemble.
            "connectToLearnerMasterLimit",
            "cnxTimeout",
            "dynamicConfigFile",
            "electionAlg",
            "electionPort",
            "electionPortBindRetry",
            "follower.skipLearnerRequestToNextProcessor",
            "forceSnapshotSync",
            "forward_learner_requests_to_commit_processor_disabled",
            "initLimit",
            "leaderConnectDelayDuringRetryMs",
            "leaderServes",
            "localSessionsEnabled",
            "localSessionsUpgradingEnabled",
            "observerMaster.sizeLimit",
            "observerMasterPort",
            "oraclePath",
            "peerType",
            "portUnification",
            "quorumCnxnTimeoutMs",
            "quorumListenOnAllIPs",
            "reconfigEnabled",
            "skipReconfigACLCheck",
            "sslQuorum",
            "sslQuorumReloadCertFiles",
            "standaloneEnabled",
            "syncEnabled",
            "syncLimit",
            "tcpKeepAlive",
            "test.allowDiscontinuousProposals",
            "testingonly.initialZxid",
            "version",
            # Files.
            "commitLogCount",
            "dataDir",
            "dataLogDir",
            "datadir.autocreate",
            "db.autocreate",
            "flushDelay",
            "forceSync",
            "fsync.warningthresholdms",
            "maxBatchSize",
            "maxWriteQueuePollTime",
            "preAllocSize",
            "serializeLastProcessedZxid.enabled",
            "snapCount",
            "snapSizeLimitInKb",
            "snapshot.compression.method",
            "snapshot.trust.empty",
            "snapshotSizeFactor",
            "txnLogSizeLimitInKb",
            # Threads, buffers and caches of the Java server.
            "bitHashCacheSize",
            "client.certReload",
            "clientPortListenBacklog",
            "clientTcpKeepAlive",
            "closeSessionTxn.enabled",
            "digest.enabled",
            "emulate353TTLNodes",
            "enableEagerACLCheck",
            "fips-mode",
            "intBufferStartingSizeBytes",
            "largeRequestMaxBytes",
            "largeRequestThreshold",
            "maxGetChildrenResponseCacheSize",
            "maxInProcessingDeadWatchers",
            "maxResponseCacheSize",
            "serverCnxnFactory",
            "ssl.handshakeDetectionTimeoutMillis",
            "ssl.hostnameVerification",
            "throttled_op_wait_time",
            "watchManagerName",
            "watcherCleanIntervalInSeconds",
            "watcherCleanThreadsNum",
            "watcherCleanThreshold",
            # The admin server, which has its own limits here.
            "admin.commandURL",
            "admin.httpVersion",
            "admin.idleTimeout",
            "admin.portUnification",
            "admin.rateLimiterIntervalInMS",
            "admin.restore.enabled",
            "admin.snapshot.enabled",
            # What an ensemble's own providers need.
            "IPAuthenticationProvider.usexforwardedfor",
            "ensembleAuthName",
            "kinit",
            "requireKerberosConfig",
        ),
        _NOTHING,
    ),
}

PREFIXES: Mapping[str, Refuse | Combined | Nothing] = {
    "authProvider.": Refuse(_provider),
    "superUser.": _COMBINED,
    **dict.fromkeys(
        (
            "autopurge.",
            "commitProcessor.",
            "connection_throttle_",
            "fastleader.",
            "group.",
            "jmx.",
            "jvm.pause.",
            "kerberos.",
            "leader.",
            "learner.",
            "messageTracker.",
            "metricsProvider.",
            "multiAddress.",
            "netty.",
            "nio.",
            "observer.",
            "pathStats.",
            "quorum.",
            "request_",
            "sasl.",
            "security.",
            "server.",
            "ssl.quorum.",
            "weight.",
        ),
        _NOTHING,
    ),
}
"""Settings of which there are many with one beginning."""


def meaning(key: str) -> Use | Refuse | Combined | Nothing | None:
    """What a setting means here; None for one that ZooKeeper 3.9 does not have."""
    found = KEYS.get(key)
    if found is None:
        found = next((each for prefix, each in PREFIXES.items() if key.startswith(prefix)), None)
    return found
