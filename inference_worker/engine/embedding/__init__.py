"""Engine of embedding models: encoders that compute one normalised vector per text."""
