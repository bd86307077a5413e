"""Peer engines (llama.cpp, vLLM, ...) in own environments under `HEADRACE_HOME/peers/`, measured in turns with ours."""
