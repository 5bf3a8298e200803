"""The table for those who know rabbitmqctl: each command of ours in it is one that there is, and none is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from amqp_broker.cli.main import command
from tests.docs.source_names import DOCS
from tests.docs.test_generated_tables import check

#: What nobody looks for who comes from rabbitmqctl.
OTHERS = {"bench", "consumer", "drain", "management", "size"}

#: The commands of rabbitmqctl, rabbitmq-diagnostics and rabbitmq-queues of 3.10.8, and some that came since.
THEIRS = re.findall(r"\w+", """
    add_member add_user add_vhost alarms authenticate_user autocomplete await_online_nodes
    await_online_synchronized_mirror await_startup cancel_sync_queue certificates change_cluster_node_type
    change_password check_alarms check_certificate_expiration
    check_for_quorum_queues_without_an_elected_leader check_if_any_deprecated_features_are_used
    check_if_node_is_mirror_sync_critical check_if_node_is_quorum_critical check_local_alarms
    check_port_connectivity check_port_listener check_protocol_listener check_running check_virtual_hosts
    cipher_suites clear_global_parameter clear_operator_policy clear_parameter clear_password
    clear_permissions clear_policy clear_topic_permissions clear_user_limits clear_vhost_limits
    close_all_connections close_all_user_connections close_connection cluster_status command_line_arguments
    consume_event_stream decode delete_member delete_queue delete_user delete_vhost
    disable_auth_attempt_source_tracking disable_vhost_deletion_protection discover_peers
    enable_auth_attempt_source_tracking enable_feature_flag enable_vhost_deletion_protection encode
    encrypt_conf environment erlang_cookie_hash erlang_cookie_sources erlang_version eval eval_file exec
    export_definitions force_boot force_checkpoint force_gc force_reset forget_cluster_node grow hash_password
    help hipe_compile import_definitions is_booting is_running join_cluster list_bindings list_channels
    list_ciphers list_connections list_consumers list_deprecated_features list_exchanges list_feature_flags
    list_global_parameters list_hashes list_network_interfaces list_node_auth_attempt_stats
    list_operator_policies list_parameters list_permissions list_policies list_queues list_topic_permissions
    list_unresponsive_queues list_user_limits list_user_permissions list_user_topic_permissions list_users
    list_vhost_limits list_vhosts listeners log_location log_tail log_tail_stream maybe_stuck memory_breakdown
    metadata_store_status node_health_check observer os_env peek ping purge_queue quorum_status rebalance
    reclaim_quorum_memory remote_shell rename_cluster_node report reset reset_node_auth_attempt_metrics
    resolve_hostname resolver_info restart_vhost resume_listeners rotate_logs runtime_thread_stats schema_info
    server_version set_cluster_name set_disk_free_limit set_global_parameter set_log_level set_operator_policy
    set_parameter set_permissions set_permissions_globally set_policy set_topic_permissions set_user_limits
    set_user_tags set_vhost_limits set_vhost_tags set_vm_memory_high_watermark shrink shutdown start_app
    status stop stop_app stream_status suspend_listeners sync_queue tls_versions trace_off trace_on
    update_cluster_nodes version wait
""")


def rows() -> list[tuple[str, str]]:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    section = page.partition("### Instead of rabbitmqctl\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert found[0] == ("RabbitMQ", "here")
    return found[1:]


def ours(text: str) -> Iterator[list[str]]:
    """The arguments of each amqp-broker in a cell."""
    for code in re.findall(r"`([^`]+)`", text):
        words = shlex.split(code)
        if words[0] == "amqp-broker":
            yield words[1:]


def test_every_command_in_the_table_exists() -> None:
    for theirs, here in rows():
        found = list(ours(here))
        assert found or here.startswith("none: "), f"{theirs}: name what there is, or say why there is nothing"
        for words in found:
            check(command, words, f"the row of {theirs}")


def test_a_command_ends_at_a_command() -> None:
    """`amqp-broker user` alone would say nothing."""
    for theirs, here in rows():
        for words in ours(here):
            group: click.Command = command
            while isinstance(group, click.Group) and words and not words[0].startswith("-"):
                following = group.get_command(click.Context(group), words[0])
                assert following is not None
                group, words = following, words[1:]
            assert not isinstance(group, click.Group) or words == ["--version"], f"{theirs}: {here}"
            required = [each for each in group.params if isinstance(each, click.Argument) and each.required]
            given = [word for word in words if not word.startswith("-")]
            assert group.name in ("join", "rejoin", "restore") or len(given) >= len(required), f"{theirs}: {here}"


def test_every_noun_is_in_the_table() -> None:
    named = {words[0] for _, here in rows() for words in ours(here)}
    assert named - {"--version"} == set(command.list_commands(click.Context(command))) - OTHERS


def test_no_command_of_theirs_stands_twice() -> None:
    named = [
        each.strip() for theirs, _ in rows() for each in theirs.replace("diagnostics: ", "").split(",")
    ]
    assert {each for each in named if named.count(each) > 1} <= {"check_if_node_is_quorum_critical"}


def test_each_command_of_theirs_has_a_row() -> None:
    named = {name for theirs, _ in rows() for name in re.findall(r"[a-z_0-9]+", theirs)}
    assert not {*THEIRS} - named
