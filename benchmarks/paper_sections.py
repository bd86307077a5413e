"""Describes the founding paper's tables for `docs/performance.md`: a heading and a text for each result."""

from __future__ import annotations

_TABLES = {
    "lengths": (
        "Speed by length of the answer",
        "Table I of the founding paper: shuffled prompts of TruthfulQA's lengths from 16 clients. The lengths are"
        " drawn, and no data set is read: questions of 3 to 60 words, lognormal with a mean of 10, in random words of"
        " this project's texts; answers of 4 to 30, 31 to 300 and 301 to 400 tokens, a third each. Speed: tokens of an"
        " answer over its work. Queue: request sent to status line, which comes when a worker has taken the job, or"
        " after a second; work: from there to the last token.",
    ),
    "batch": (
        "Speed by batch",
        "Table II of the founding paper: the same requests, three at least by each client. The requests of all clients"
        " run as one batch; a tenant gets at most 56 of a worker's 64 slots. Tokens/s: while every client is served;"
        " whole: from the first request to the last token. Queue and work: means of all requests; work is from a job's"
        " delivery to a worker to its end, in the worker's metrics, queue the rest of the time to the last token."
        " Drafts: share of the tokens that speculation guessed.",
    ),
    "workloads": (
        "Conversations and instructions",
        "The lengths of ShareGPT (lognormal: on average 200 tokens in, 170 out) and of Alpaca (19 in, 58 out), drawn as"
        " above. Columns as above.",
    ),
    "open": (
        "Open loop to the knee",
        "Alpaca-like requests arrive at random (Poisson), at shares of the best rate of a closed loop. Within"
        " objectives: share of the requests with a TTFT of at most 1 s and a TPOT of at most 100 ms. Knee: the highest"
        " rate before the first at which this share is below 0.9. Refused: answered 503, because the estimated wait is"
        " above ten seconds.",
    ),
    "start-up": (
        "Start-up",
        "From the start of `headrace up` in a new home, with one worker, until its API lists the model, and until the"
        " first token of a first request. Files are in the page cache.",
    ),
    "kv-waste": (
        "KV cache waste by step",
        "Share of allocated KV cache slots that held no token after each engine step, while the engine, called"
        " directly, serves 16 clients. It cannot be below 4 % in every step: a sequence leaves half a block of 16"
        " tokens unused on average, so a step is within 4 % if its sequences have about 180 tokens or more, as the mean"
        " tokens per sequence in the steps above 4 % and within it show. Smaller blocks waste less of short answers.",
    ),
}
_MARGINS = (
    "±: 95 % confidence interval of a mean; of tokens/s by batch means, in windows of the load, else over requests or"
    " starts. Sampled at temperature 1; both settings get the same prompts."
)
PAPER_SECTIONS = {
    f"paper-{table}{end}": (
        f"{title}{by}",
        f"{text} `default` has no setting, `fast` 8-bit activations. {_MARGINS}{mode}",
    )
    for end, by, mode in (
        ("", "", " Speculation on, as by default."),
        ("-plain", ", without speculation", " Speculation off."),
    )
    for table, (title, text) in _TABLES.items()
}
