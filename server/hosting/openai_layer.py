"""OpenAI's chat and text completions, by vLLM's own serving layer over a hosted engine.

Its handlers are called directly and its routes are not mounted, so only this server's routes are reachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from judges.engines.vllm.async_engine import BULK, URGENT, AsyncVLLMEngine
from judges.engines.vllm.compiler import NOT_WRITTEN
from judges.engines.vllm.settings import ABORTED
from judges.errors import EngineError, RequestError
from server.hosting.schemas import check_schema, with_bounds_listed, with_object_pattern

Path = Literal["/v1/chat/completions", "/v1/completions"]

SERVING_LAYER = "vLLM 0.29"
"""The first version with the serving layer at the module paths used here."""

FAILED = "error"
"""vLLM's finish reason of an answer that could not follow its constraint."""

FORMATS = ("response_format", "structured_outputs", "tools", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
"""Fields by which a client asks for a format."""

HIDDEN_FOLDER = "<path>"
"""vLLM's replacement of some folders in its messages, the model's among them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: a JSON body, or server-sent events."""

    status: int
    body: Mapping[str, Any] | None = None
    events: AsyncIterator[str] | None = None


class OpenAILayer:
    """vLLM's handlers for one model.

    Args:
        state: Holds vLLM's handlers.
        answer_schema: JSON schema of chat answers, unless the client asks for a format of its own.
        folder: The model's folder, which is kept out of messages.
        backend: The constraint backend.
    """

    def __init__(self, state: Any, answer_schema: Mapping[str, Any] | None, folder: str, backend: str) -> None:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.entrypoints.openai.completion.protocol import CompletionRequest

        self._state = state
        self._schema = answer_schema
        self._folder = folder
        self._backend = backend
        self._kinds = {
            "/v1/chat/completions": (ChatCompletionRequest, state.openai_serving_chat.create_chat_completion),
            "/v1/completions": (CompletionRequest, state.openai_serving_completion.create_completion),
        }

    @classmethod
    async def over(
        cls, engine: AsyncVLLMEngine, name: str, answer_schema: Mapping[str, Any] | None, most_tokens: int
    ) -> OpenAILayer:
        """Make the layer over a started engine, under the name that clients use.

        Args:
            engine: The engine.
            name: The name.
            answer_schema: JSON schema of chat answers, unless the client asks for a format of its own.
            most_tokens: Tokens of a chat answer, unless the client gives a limit of its own.

        Raises:
            EngineError: This version of vLLM has no such layer.
        """
        from starlette.datastructures import State

        state = State()
        try:
            from vllm.entrypoints.launchers.api_server.app_state import init_app_state
            from vllm.entrypoints.launchers.cli_args import make_arg_parser
            from vllm.utils.argparse_utils import FlexibleArgumentParser

            arguments = ["--model", str(engine.hosted.folder), "--served-model-name", name]
            arguments += ["--enable-prompt-tokens-details", "--disable-log-stats"]
            parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
            await init_app_state(_Guarded(engine), state, parsed, await engine.client.get_supported_tasks())
        except ImportError as error:
            raise EngineError(f"{SERVING_LAYER} or newer is needed: {error}") from error
        # vLLM's own option would also bound the limits that clients give.
        chat = state.openai_serving_chat
        chat.default_sampling_params = {**chat.default_sampling_params, "max_tokens": most_tokens}
        return cls(state, answer_schema, str(engine.hosted.folder), engine.hosted.constraint)

    async def answer(self, path: Path, body: Mapping[str, Any], *, model: str, urgent: bool) -> Reply:
        """Answer a request.

        Args:
            path: The endpoint.
            body: The request's body.
            model: The model or adapter, by its name in vLLM.
            urgent: Whether a caller waits.

        Raises:
            EngineError: The engine has ended.
            RequestError: A pattern cannot be compiled now.
        """
        from pydantic import ValidationError
        from vllm.entrypoints.serve.engine.protocol import ErrorResponse
        from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
        from vllm.v1.engine.exceptions import EngineDeadError

        kind, handle = self._kinds[path]
        fields = {**body, "model": model, "priority": URGENT if urgent else BULK}
        if path == "/v1/chat/completions" and self._schema is not None and _leaves_open(fields):
            fields["response_format"] = _format(self._schema)
        try:
            fields |= with_object_pattern(fields, self._backend)
            fields |= await asyncio.to_thread(with_bounds_listed, fields, self._backend)
            await asyncio.to_thread(check_schema, fields, self._backend)
            reply = await handle(await asyncio.to_thread(kind.model_validate, fields))
        except EngineDeadError as error:
            raise EngineError("the engine's process has ended") from error
        except (EngineError, RequestError):
            raise
        except ValidationError as error:
            return _refusal(_sentence(error))
        except RecursionError:
            return _refusal("the request is nested too deeply")
        except Exception as error:
            reply = create_error_response(error)
        if isinstance(reply, ErrorResponse):
            message = reply.error.message.replace(self._folder, model).replace(HIDDEN_FOLDER, model)
            return Reply(reply.error.code, _openai_error(message, reply.error.param, reply.error.code))
        if isinstance(reply, AsyncIterator):
            return await _streamed(reply)
        if any(choice.finish_reason == ABORTED for choice in reply.choices):
            raise EngineError("the engine was stopped in the middle of an answer")
        return Reply(200, reply.model_dump(mode="json"))

    async def load(self, name: str, folder: str) -> int:
        """Load a LoRA adapter under a name that was never used before. Returns its number in vLLM.

        Raises:
            EngineError: vLLM cannot load it.
        """
        from vllm.entrypoints.serve.engine.protocol import ErrorResponse
        from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest

        models = self._state.openai_serving_models
        reply = await models.load_lora_adapter(LoadLoRAAdapterRequest(lora_name=name, lora_path=folder))
        if isinstance(reply, ErrorResponse):
            raise EngineError(f"the adapter cannot be loaded: {reply.error.message}")
        return int(models.lora_requests[name].lora_int_id)

    async def unload(self, name: str) -> None:
        """Remove a LoRA adapter from vLLM's lists and its memory."""
        models = self._state.openai_serving_models
        known = models.lora_requests.pop(name, None)
        if known is not None:
            await models.engine_client.remove_lora(known.lora_int_id)


class _Guarded:
    """An engine's client for vLLM's handlers, which admits a caller's constraint before the engine sees it."""

    def __init__(self, engine: AsyncVLLMEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine.client, name)

    async def generate(self, prompt: Any, sampling_params: Any, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Answer, once the constraint is admitted.

        Raises:
            ValueError: The constraint is refused, or an answer cannot follow it to its end.
        """
        constraint = await self._engine.admit_params(sampling_params)
        async for output in self._engine.client.generate(prompt, sampling_params, *args, **named):
            if constraint is not None and any(choice.finish_reason == FAILED for choice in output.outputs):
                if self._engine.guard is not None:
                    self._engine.guard.refuse(constraint, NOT_WRITTEN)
                raise ValueError(NOT_WRITTEN)
            yield output


def _leaves_open(fields: Mapping[str, Any]) -> bool:
    """Check whether a request asks for no format, or for JSON of any shape."""
    given = {name: fields[name] for name in FORMATS if fields.get(name)}
    return not given or given == {"response_format": {"type": "json_object"}}


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


async def _streamed(events: AsyncIterator[str]) -> Reply:
    """Start a stream; if its first event is an error, refuse instead."""
    first = await anext(events, "")
    with contextlib.suppress(ValueError):
        error = json.loads(first.removeprefix("data: ")).get("error")
        if isinstance(error, dict):
            status = int(error.get("code") or 500)
            return Reply(status, _openai_error(str(error.get("message")), error.get("param"), status))
    return Reply(200, events=_with_first(first, events))


async def _with_first(first: str, events: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for event in events:
        yield event


def _sentence(error: Any) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.islower())
    problem = str(first["msg"]).removeprefix("Value error, ")
    return f"{field}: {problem}"[:500] if field else problem[:500]


def _refusal(message: str) -> Reply:
    return Reply(400, _openai_error(message, None, 400))


def _openai_error(message: str, param: str | None, status: int) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


async def encoded(events: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Encode server-sent events."""
    async for event in events:
        yield event.encode(errors="replace")
