"""Request and response models of `/v1/organization`, after OpenAI's specification."""
