"""Every message that crosses the queue, as frozen, versioned structs encoded as JSON.

`msgspec`, so that it is fast and strict. Golden files in `tests/contract/golden/` pin the encoding: changing a field's
name or meaning needs a new `WIRE_VERSION`; a new field with a default does not.

This package does not know queues, sockets, HTTP, torch or money. Times are Unix seconds (float).
"""

from router.messages.base import WIRE_VERSION, FailureCode, ServiceClass, Usage
from router.messages.codec import CONTROLS, JOBS, STATUSES, USAGE_RECORDS, WINDOWS, Codec, encode
from router.messages.control import Cancel, Control, Drain, Task, WorkerState, WorkerStatus
from router.messages.job import (
    ChatPrompt,
    EmbeddingPrompt,
    Grammar,
    GrammarKind,
    Job,
    Prompt,
    SamplingParams,
    TextOptions,
    TextPrompt,
    TokenPrompt,
    ToolChoice,
    ToolMode,
)
from router.messages.replies import (
    REAPER,
    UNKNOWN_ID,
    Cancelled,
    Delta,
    Embedded,
    Failed,
    Finished,
    FinishReason,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Started,
    Terminal,
    TokenAlternative,
    TokenLogprob,
    ToolCallDelta,
    Window,
    joined_calls,
)
from router.messages.usage import Outcome, UsageRecord

__all__ = [
    "CONTROLS",
    "JOBS",
    "REAPER",
    "STATUSES",
    "UNKNOWN_ID",
    "USAGE_RECORDS",
    "WINDOWS",
    "WIRE_VERSION",
    "Cancel",
    "Cancelled",
    "ChatPrompt",
    "Codec",
    "Control",
    "Delta",
    "Drain",
    "Embedded",
    "EmbeddingPrompt",
    "Failed",
    "FailureCode",
    "FinishReason",
    "Finished",
    "Grammar",
    "GrammarKind",
    "Job",
    "Outcome",
    "Prompt",
    "PromptEcho",
    "PromptLogprobs",
    "Reply",
    "SamplingParams",
    "ServiceClass",
    "Started",
    "Task",
    "Terminal",
    "TextOptions",
    "TextPrompt",
    "TokenAlternative",
    "TokenLogprob",
    "TokenPrompt",
    "ToolCallDelta",
    "ToolChoice",
    "ToolMode",
    "Usage",
    "UsageRecord",
    "Window",
    "WorkerState",
    "WorkerStatus",
    "encode",
    "joined_calls",
]
