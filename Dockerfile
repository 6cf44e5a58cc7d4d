# zketcd in front of an etcd cluster: docker run -e ZKETCD_ETCD=http://etcd:2379 -p 2181:2181 zketcd
# There is no etcd in the image: ZKETCD_ETCD must be set. Every option is a variable, see docs/options.md.

FROM python:3.13-slim-trixie AS build
# docker build --build-arg LOCKS="runtime grpcio" makes an image that can run with --etcd-transport grpcio; otel is for --traces on,
# archive for an archive at s3://, pipeline-small for import, export, verify and inspect.
ARG LOCKS=runtime
COPY requirements/runtime.txt /build/
COPY requirements/grpcio.txt requirements/otel.txt requirements/archive.txt requirements/pipeline-small.txt /build/
RUN python -m venv /opt/zketcd \
    && for lock in $LOCKS; do \
        /opt/zketcd/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
            --require-hashes --only-binary :all: -r "/build/$lock.txt" || exit 1; \
    done \
    && /opt/zketcd/bin/python -m pip uninstall --yes --quiet pip setuptools
COPY codec /opt/zketcd/app/codec
COPY schema /opt/zketcd/app/schema
COPY proxy /opt/zketcd/app/proxy
COPY cli /opt/zketcd/app/cli
COPY ctl /opt/zketcd/app/ctl
COPY serve /opt/zketcd/app/serve
COPY console /opt/zketcd/app/console
COPY archive /opt/zketcd/app/archive
COPY pipeline /opt/zketcd/app/pipeline
COPY zketcd /opt/zketcd/app/zketcd
COPY deploy/healthcheck.py /opt/zketcd/
COPY deploy/debian/launcher /opt/zketcd/bin/zketcd
# Compiled here: the server's user may not write, and its root may be read-only.
RUN chmod 755 /opt/zketcd/bin/zketcd && python -m compileall -q /opt/zketcd/app

FROM python:3.13-slim-trixie
COPY --from=build /opt/zketcd /opt/zketcd
WORKDIR /opt/zketcd/app
# A number, so that Kubernetes can see that it is not root; it owns nothing.
USER 10001:10001
# The command `zketcd` is there for docker exec: zketcd upgrade, zketcd sessions, zketcd archive ...
ENV PATH=/opt/zketcd/bin:$PATH \
    PYTHONPATH=/opt/zketcd/app \
    ZKETCD_LISTEN=:2181 \
    ZKETCD_ADMIN_LISTEN=:8080 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Clients; the admin HTTP server (/ready, /live, /metrics, /commands).
EXPOSE 2181 8080
# Whether the process lives, since some restart what is unhealthy: also while it loads, and without etcd. With
# `ready` behind it: whether clients are served. The port opens at start, but after an embedded etcd's.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/zketcd/bin/python", "/opt/zketcd/healthcheck.py"]
# SIGTERM, which docker stop sends, drains: sessions live on for a reconnect to another proxy.
ENTRYPOINT ["/opt/zketcd/bin/zketcd", "serve"]
