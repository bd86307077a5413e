"""Pydantic models of the chat API's requests and responses; the page's TypeScript types are generated from them.

Times are Unix seconds, money is integer nano-USD (`_nano`).
"""
