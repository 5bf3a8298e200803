# fish loads this when amqp-broker is completed first; the command itself says how.
_AMQP_BROKER_COMPLETE=fish_source amqp-broker | source
