"""Message types: every message between processes, as frozen, versioned `msgspec` structs encoded as JSON.

Golden files in `tests/contract/golden/` pin the encoding: changing a field's encoded name or meaning needs a new
`WIRE_VERSION`; a new field with a default does not. Times are Unix seconds (float).
"""

# ruff: noqa: F401 - the package exports what it imports (`implicit_reexport` in pyproject.toml)
from router.messages.base import WIRE_VERSION, FailureCode, ServiceClass, Usage, UsagePart
from router.messages.codec import CONTROLS, JOBS, SETTLEMENTS, STATUSES, WINDOWS, Codec, encode
from router.messages.control import (
    ActiveRequester,
    AnswerPart,
    AnswerState,
    Cancel,
    Control,
    Drain,
    FollowAnswer,
    GatewayLoad,
    KeysChanged,
    KeySet,
    OwnTool,
    Ping,
    PromptBounds,
    QueuedWork,
    RequesterWork,
    Resume,
    ResumeDecision,
    Task,
    WorkerState,
    WorkerStatus,
)
from router.messages.job import (
    LARK_KEYWORD,
    MAX_DEPTH,
    ChatPrompt,
    EmbeddingPrompt,
    Grammar,
    GrammarKind,
    ImagePrompt,
    Job,
    OwnToolCall,
    Prompt,
    SamplingParams,
    ScorePrompt,
    TextOptions,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    ToolChoice,
    ToolMode,
)
from router.messages.replies import (
    REAPER,
    UNKNOWN_TOKEN_ID,
    AttemptReport,
    AttemptState,
    Cancelled,
    Delta,
    Drawn,
    Embedded,
    Failed,
    Finished,
    FinishReason,
    PromptEcho,
    PromptLogprobs,
    Reply,
    ResumeRequest,
    Scored,
    Started,
    Terminal,
    TokenAlternative,
    Tokenised,
    TokenLogprob,
    ToolCallDelta,
    Window,
    merge_tool_calls,
)
from router.messages.search import (
    CONFIDENCE,
    MAX_BEAMS,
    MAX_CANDIDATES,
    MAX_LENGTH_PENALTY,
    MAX_LOOKAHEAD,
    MAX_PATHS,
    MAX_STEPS,
    RESULT_TOKENS,
    Aggregate,
    EarlyStopping,
    Extraction,
    ExtractionKind,
    Search,
    SearchMethod,
    estimated_reading,
)
from router.messages.steps import Step, StepState
from router.messages.usage import Outcome, Receipt, ReportedUsage, Settlement, UsageRecord
