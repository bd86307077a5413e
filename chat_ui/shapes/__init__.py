"""What the chat's API takes and gives, as pydantic models: the OpenAPI document and the page's types are made of them.

Times are Unix seconds, money is integer nano-USD (`_nano`). Knows no store and no HTTP.
"""
