"""TLS to RabbitMQ (`amqps://`) and to MongoDB (`tls=true`): it works with a trusted certificate and only with one."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection
from infra.launcher.readiness import free_port
from infra.rabbitmq.definitions import VIRTUAL_HOST
from router.errors import BrokerUnavailable
from router.transport.base import Outgoing
from router.transport.rabbitmq import RabbitMQTransport
from tests.chaos.tcp_proxy import TcpProxy
from tests.child_process import start_or_skip
from tests.rabbitmq_fixtures import make_node


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certificates(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `ca.pem`, and `server.pem` with the key and certificate of `localhost`."""
    folder = tmp_path_factory.mktemp("certificates")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return folder


@pytest.fixture(scope="module")
def amqps_port(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port on which a RabbitMQ node expects TLS."""
    node, port = make_node(tmp_path_factory.mktemp("rabbitmq")), free_port()
    settings = {
        "listeners.ssl.1": f"127.0.0.1:{port}",
        "ssl_options.certfile": node.home / "server.pem",
        "ssl_options.keyfile": node.home / "server.pem",
        "ssl_options.versions.1": "tlsv1.3",
    }
    write_files = node._write_files

    def with_tls() -> None:
        write_files()
        shutil.copy(certificates / "server.pem", node.home)  # a node in a chroot reads nothing outside of its home
        with (node.home / "rabbitmq.conf").open("a") as config:
            config.writelines(f"{name} = {value}\n" for name, value in settings.items())

    node._write_files = with_tls  # type: ignore[method-assign]
    start_or_skip(node)
    yield port
    node.kill()


def amqps_transport(port: int) -> RabbitMQTransport:
    return RabbitMQTransport(f"amqps://admin:test@localhost:{port}/{VIRTUAL_HOST}", "test", publish_timeout=10)


@pytest.mark.rabbitmq
async def test_a_message_passes_over_amqps(
    amqps_port: int, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    transport = amqps_transport(amqps_port)
    await transport.start()
    subscription = await transport.subscribe("amq.direct", ["key"], arguments={})
    await transport.publish(Outgoing("amq.direct", "key", b"over TLS"))
    assert (await anext(aiter(subscription))).body == b"over TLS"
    await transport.close()


@pytest.mark.rabbitmq
async def test_a_broker_with_an_unknown_certificate_is_refused(amqps_port: int) -> None:
    transport = amqps_transport(amqps_port)
    transport._start_timeout = 3.0
    with pytest.raises(BrokerUnavailable, match="certificate"):
        await transport.start()


@pytest.fixture
async def mongodb_tls_url(certificates: Path, mongodb_url: str) -> AsyncIterator[str]:
    """URL of a port that expects TLS and forwards to the store."""
    target = urlsplit(mongodb_url)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem")
    assert target.port is not None
    proxy = TcpProxy(target.port, tls=context)
    await proxy.start()
    yield mongodb_url.replace(f"{target.hostname}:{target.port}", f"localhost:{proxy.port}") + "&tls=true"
    await proxy.stop()


@pytest.mark.store
async def test_the_store_answers_over_tls(mongodb_tls_url: str, certificates: Path) -> None:
    connection = StoreConnection(f"{mongodb_tls_url}&tlsCAFile={certificates / 'ca.pem'}")
    assert await connection.server_time() > 0
    connection.close()


@pytest.mark.store
async def test_a_store_with_an_unknown_certificate_is_refused(mongodb_tls_url: str) -> None:
    connection = StoreConnection(mongodb_tls_url)
    with pytest.raises(StoreUnavailable):
        await connection.server_time()
    connection.close()
