"""What the first start makes, and that no later one makes it again."""

from __future__ import annotations

import random
from pathlib import Path

from amqp_broker.auth.passwords import verify_password
from amqp_broker.links.levels import LEVEL
from amqp_broker.metadata import commands
from amqp_broker.node import Node
from amqp_broker.settings.kinds import Address
from tests.auth.hashed_password import hash_password
from tests.node.node_driver import NodeDriver, small_config
from tests.simulation.simulated_disk import SimulatedDisk


def test_a_restart_leaves_the_administrators_password_as_it_is() -> None:
    """Also one after a crash, when the log is read from its beginning."""
    driver = NodeDriver(small_config(default_user="admin", default_password="first"))
    stored = hash_password("changed", driver.node.broker.random_bytes)
    driver.node.broker.propose(commands.put_user("admin", stored, ["administrator"]))
    driver.settle()
    for _ in range(3):
        before = driver.node.broker.metadata.snapshot()
        driver.crash()
        assert driver.node.broker.metadata.snapshot() == before
    user = driver.node.broker.metadata.user("admin")
    assert user is not None
    assert verify_password("changed", user.password_hash)


def test_the_administrator_who_is_there_keeps_the_password_when_the_last_vhost_has_gone() -> None:
    driver = NodeDriver(small_config(default_user="admin", default_password="first"))
    user = driver.node.broker.metadata.user("admin")
    driver.node.broker.propose(commands.delete_vhost("/"))
    driver.settle()
    driver.crash()
    assert list(driver.node.broker.vhosts) == ["/"]
    assert driver.node.broker.metadata.user("admin") == user
    assert driver.node.broker.metadata.permission("admin", "/") is not None


def test_a_node_alone_is_at_its_own_level_when_it_gets_ready() -> None:
    """Or a client that is quick is refused a stream."""
    driver = NodeDriver(small_config(default_user="admin", default_password="first"))
    node = Node(driver.config, SimulatedDisk(random.Random(1)), driver.now, random.Random(2).randbytes)
    node.recover(driver.now)
    while not node.is_ready:
        for check in node.end_turn(driver.now).checks:
            check.run()
            node.checked(check, driver.now)
        job = node.take_sync()
        if job is not None:
            job.run()
            node.synced(job, driver.now)
    assert node.replication.level == LEVEL


def test_the_administrator_whose_password_was_just_hashed_comes_in_without_another_hash() -> None:
    driver = NodeDriver(small_config(default_user="admin", default_password="first"))
    user = driver.node.broker.metadata.user("admin")
    assert user is not None
    assert user.password_hash.startswith("scrypt$")
    assert driver.node.broker.passwords.is_known("first", user.password_hash)
    assert not driver.node.broker.passwords.is_known("second", user.password_hash)


def test_a_folder_that_goes_with_its_parent_is_not_worth_a_slow_hash() -> None:
    driver = NodeDriver(small_config(default_user="admin", default_password="first", data_dir_is_temporary=True))
    user = driver.node.broker.metadata.user("admin")
    assert user is not None
    assert user.password_hash.startswith("rabbit-sha256$")
    assert verify_password("first", user.password_hash)


def test_a_member_that_goes_has_the_slow_hash_of_those_that_stay() -> None:
    where = {"cluster_listen": (Address("127.0.0.1", 0),), "cluster_secret_file": Path("secret")}
    driver = NodeDriver(
        small_config(default_user="admin", default_password="first", data_dir_is_temporary=True, **where)
    )
    user = driver.node.broker.metadata.user("admin")
    assert user is not None
    assert user.password_hash.startswith("scrypt$")


def test_a_password_that_everybody_knows_is_not_worth_a_slow_hash() -> None:
    driver = NodeDriver(small_config())
    user = driver.node.broker.metadata.user("guest")
    assert user is not None
    assert user.password_hash.startswith("rabbit-sha256$")
    assert verify_password("guest", user.password_hash)
    assert not verify_password("Guest", user.password_hash)
