"""The language model: any callable from prompt to answer; and one that speaks to an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..embedding.service import (
    ANSWER_BYTES_LIMIT,
    OPENAI_URL,
    TIMEOUT_S,
    Service,
    ServiceFailed,
    ServiceMisused,
    openai_key,
)
from ..memory.errors import Invalid, VeridicalError

__all__ = ["ANSWER_BYTES_LIMIT", "Chat", "ChatFailed", "OpenAIChat", "openai_key"]

Chat = Callable[[str], str]
"""A model: it is asked a prompt and answers with text. What it answers is believed in nothing."""

MODEL: Final = "gpt-4o-mini"


class ChatFailed(VeridicalError):
    """The model gave no answer. Nothing was stored; `may_retry` says whether the same call may succeed later."""

    def __init__(self, reason: str, *, may_retry: bool) -> None:
        super().__init__(f"the model gave no answer: {reason}")
        self.reason = reason
        self.may_retry = may_retry


class OpenAIChat:
    """A `Chat` by HTTP, at any server with the chat completions of OpenAI.

    `timeout_s` bounds the whole call. The key never appears in an error, a log line or `repr`; it is sent to a host
    elsewhere over TLS only. A server on this machine may be asked without a key (`key=""`). Redirects are not followed.
    """

    def __init__(
        self, model: str = MODEL, *, url: str = OPENAI_URL, key: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        try:
            self._service = Service(url, openai_key() if key is None else key, timeout_s)
        except ServiceMisused as error:
            raise Invalid(error.field, error.reason) from error
        self.model = model

    def __repr__(self) -> str:
        """Which model, and where; no key."""
        return f"OpenAIChat({self.model!r} at {self._service.host})"

    def __call__(self, prompt: str) -> str:
        """The model's answer. Raises `ChatFailed`."""
        question = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}
        try:
            return _content(self._service.ask("chat/completions", question))
        except ServiceFailed as error:
            raise ChatFailed(error.reason, may_retry=error.may_retry) from error


def _content(answer: Any) -> str:
    try:
        content = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        raise ChatFailed("the server's answer is no chat completion", may_retry=True) from None
    if type(content) is not str:
        raise ChatFailed("the model answered without text", may_retry=True)
    return content
