"""Engine of embedding models: runs an encoder that turns each text's token ids into one normalised vector."""
