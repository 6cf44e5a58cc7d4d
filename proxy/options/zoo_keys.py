"""ZooKeeper's settings that are no option here: which are dangerous to ignore, which mean nothing.

The names are those of zoo.cfg: ZooKeeper's system properties without the leading `zookeeper.`
(QuorumPeerConfig.parseProperties). Settings that mean the same as an option are declared with the option.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

_PROVIDERS = frozenset(
    f"org.apache.zookeeper.server.auth.{name}AuthenticationProvider"
    for name in ("Digest", "IP", "SASL", "X509")
)


class Refuse(NamedTuple):
    """A setting that may not be ignored: `reason` gives why its value stops the start, "" if it does not."""

    reason: Callable[[str], str]
    unless: str = ""  # an option that takes the setting's place
    secret: bool = False  # the value is a password


class Combined(NamedTuple):
    """A setting that zoo_cfg reads together with others."""


class Nothing(NamedTuple):
    """A setting without a meaning here: of the ensemble, the JVM, files that zketcd does not have."""


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

#: Settings without a meaning here, by what they are about.
_WITHOUT_MEANING = {
    "the ensemble": """
        connectToLearnerMasterLimit cnxTimeout dynamicConfigFile electionAlg electionPort
        electionPortBindRetry follower.skipLearnerRequestToNextProcessor forceSnapshotSync
        forward_learner_requests_to_commit_processor_disabled initLimit leaderConnectDelayDuringRetryMs
        leaderServes localSessionsEnabled localSessionsUpgradingEnabled observerMaster.sizeLimit
        observerMasterPort oraclePath peerType portUnification quorumCnxnTimeoutMs quorumListenOnAllIPs
        reconfigEnabled skipReconfigACLCheck sslQuorum sslQuorumReloadCertFiles standaloneEnabled
        syncEnabled syncLimit tcpKeepAlive test.allowDiscontinuousProposals testingonly.initialZxid version
    """,
    "files": """
        commitLogCount dataDir dataLogDir datadir.autocreate db.autocreate flushDelay forceSync
        fsync.warningthresholdms maxBatchSize maxWriteQueuePollTime preAllocSize
        serializeLastProcessedZxid.enabled snapCount snapSizeLimitInKb snapshot.compression.method
        snapshot.trust.empty snapshotSizeFactor txnLogSizeLimitInKb
    """,
    "threads, buffers and caches of the Java server": """
        bitHashCacheSize client.certReload clientPortListenBacklog clientTcpKeepAlive
        closeSessionTxn.enabled digest.enabled emulate353TTLNodes enableEagerACLCheck fips-mode
        intBufferStartingSizeBytes largeRequestMaxBytes largeRequestThreshold
        maxGetChildrenResponseCacheSize maxInProcessingDeadWatchers maxResponseCacheSize serverCnxnFactory
        ssl.handshakeDetectionTimeoutMillis ssl.hostnameVerification throttled_op_wait_time watchManagerName
        watcherCleanIntervalInSeconds watcherCleanThreadsNum watcherCleanThreshold
    """,
    "the admin server, which has its own limits here": """
        admin.commandURL admin.httpVersion admin.idleTimeout admin.portUnification
        admin.rateLimiterIntervalInMS admin.restore.enabled admin.snapshot.enabled
    """,
    "what an ensemble's own providers need": """
        IPAuthenticationProvider.usexforwardedfor ensembleAuthName kinit requireKerberosConfig
    """,
}
_FAMILIES = """
    autopurge. commitProcessor. connection_throttle_ fastleader. group. jmx. jvm.pause. kerberos. leader.
    learner. messageTracker. metricsProvider. multiAddress. netty. nio. observer. quorum.
    request_ sasl. security. server. ssl.quorum. weight.
"""

KEYS: Mapping[str, Refuse | Combined | Nothing] = {
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
    # Who may do what.
    "DigestAuthenticationProvider.digestAlg": Refuse(
        _if_other_than("SHA1", "zketcd hashes passwords with SHA1: ACLs with other hashes would not match")
    ),
    "DigestAuthenticationProvider.enabled": Refuse(_if_false("zketcd cannot turn the scheme digest off")),
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
    "security.auth_to_local": Refuse(
        _if_other_than("DEFAULT", "zketcd has no rules for principals: users would get other names in ACLs")
    ),
    "letAnySaslUserDoX": Refuse(
        _always("zketcd has no such entry of ACLs: clients would get NOAUTH where they had access")
    ),
    "SASLAuthenticationProvider.superPassword": Refuse(
        _always("give the user super this password where the users are, and remove the setting"), secret=True
    ),
    "skipACL": Refuse(_if_true("zketcd always checks ACLs: clients would get NOAUTH where they had access")),
    # The audit log.
    "audit.impl.class": Refuse(
        _if_other_than(
            "ORG.APACHE.ZOOKEEPER.AUDIT.SLF4JAUDITLOGGER", "zketcd cannot load Java classes: use --audit-log"
        )
    ),
    # TLS.
    "ssl.keyStore.location": _COMBINED,
    "ssl.keyStore.type": Refuse(_store_type, unless="tls_cert"),
    "ssl.trustStore.location": _COMBINED,
    "ssl.trustStore.type": Refuse(_store_type, unless="tls_ca"),
    "ssl.trustStore.password": _NOTHING,
    "ssl.trustStore.passwordPath": _NOTHING,
    "ssl.protocol": _NOTHING,
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
    **dict.fromkeys(" ".join(_WITHOUT_MEANING.values()).split(), _NOTHING),
}

PREFIXES: Mapping[str, Refuse | Combined | Nothing] = {
    "authProvider.": Refuse(_provider),
    "superUser.": _COMBINED,
    "pathStats.": _COMBINED,
    **dict.fromkeys(_FAMILIES.split(), _NOTHING),
}
"""Settings of which there are many with one beginning."""


def meaning(key: str) -> Refuse | Combined | Nothing | None:
    """What a setting means here; None for one that ZooKeeper 3.9 does not have."""
    found = KEYS.get(key)
    if found is None:
        found = next((each for prefix, each in PREFIXES.items() if key.startswith(prefix)), None)
    return found
