# The resources that are plugins elsewhere: the broker says what is done instead.

terraform {
  required_providers {
    rabbitmq = {
      source = "cyrilgdn/rabbitmq"
    }
  }
}

provider "rabbitmq" {}

resource "rabbitmq_shovel" "moved" {
  name  = "moved"
  vhost = "/"
  info {
    source_uri        = "amqp:///"
    source_queue      = "a"
    destination_uri   = "amqp:///"
    destination_queue = "b"
  }
}

resource "rabbitmq_federation_upstream" "there" {
  name  = "there"
  vhost = "/"
  definition {
    uri = "amqp://there"
  }
}
