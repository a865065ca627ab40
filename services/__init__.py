"""The cluster: configuration, transports, OpenAI API, Ray Serve app, metrics, command line."""
