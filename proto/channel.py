"""How every party opens a gRPC channel, and the limits that hold on all of them."""

from __future__ import annotations

from typing import Final

import grpc
import grpc.aio

MESSAGE_BYTES_LIMIT: Final = 16 << 20
"""The largest message of any stream: an envelope at its limit, or a batch of entries, with room for their frames."""

RECONNECT_FIRST_MS: Final = 50
RECONNECT_LAST_MS: Final = 250
CONNECT_TIMEOUT_MS: Final = 1000
KEEPALIVE_MS: Final = 10_000
KEEPALIVE_ANSWER_MS: Final = 3_000
PING_INTERVAL_MS: Final = 1_000

LIMITS: Final = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_LIMIT),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_LIMIT),
)

CHANNEL_OPTIONS: Final = (
    *LIMITS,
    # A connection belongs to one channel, so that closing the channel closes it and a fork leaves nothing behind.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_FIRST_MS),
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_LAST_MS),
    # Names are looked up again at every attempt: an address may change with every restart of a container.
    ("grpc.dns_min_time_between_resolutions_ms", CONNECT_TIMEOUT_MS),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_MS),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)

SERVER_OPTIONS: Final = (
    *LIMITS,
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_MS),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_INTERVAL_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    # Two nodes on one port would share its traffic by chance.
    ("grpc.so_reuseport", 0),
)


def open_channel(
    endpoint: str, credentials: grpc.ChannelCredentials | None = None, name: str = ""
) -> grpc.aio.Channel:  # fmt: skip
    """A channel to `endpoint` (host:port) that belongs to the running loop; nothing is dialed before its first call.

    With TLS, whoever answers must have a certificate for `name`, or else for the host of the endpoint.
    """
    if credentials is None:
        return grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
    expected = (("grpc.ssl_target_name_override", name),) if name else ()
    return grpc.aio.secure_channel(endpoint, credentials, options=(*CHANNEL_OPTIONS, *expected))


def open_blocking_channel(endpoint: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """The same for calls that block."""
    if credentials is None:
        return grpc.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS)
