"""Request and response models of `/v1/organization`, the administration API, after OpenAI's specification."""
