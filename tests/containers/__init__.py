"""The shipped images and docker-compose.yml, built and run with Podman (`make containers-test`)."""
