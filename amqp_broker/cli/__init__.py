"""The command amqp-broker: one module per subcommand, each loaded only when it is called for."""
