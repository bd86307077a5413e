"""The tests of each class of hostile input: rows H1 to H76, H88 to H95, H114 to H118, H121, H122, H140 to H144, H146
to H149 of docs/design/hostile-input.md. `test_hostile_index.py` checks that the named tests exist.
"""

from __future__ import annotations

GATEWAY = "tests/gateway/"
AUTHENTICATION = f"{GATEWAY}http/test_authentication.py::"
KEYS = "tests/auth_billing/"
RACES = f"{KEYS}races/test_races.py::"
ORGANIZATION = f"{GATEWAY}http/routes/organization/"
REFUSALS = f"{GATEWAY}test_refusals.py::"
MCP = f"{GATEWAY}http/routes/test_mcp.py::"
HTTP = f"{GATEWAY}http/test_http_protocol.py::"
SERVER = f"{GATEWAY}http/test_server.py::"
CLIENTS = f"{GATEWAY}test_hostile_clients.py::"
MESSAGES = "tests/contract/test_hostile_messages.py::"
MODELS = "tests/inference_worker/test_hostile_models.py::"
OPERATORS = f"{GATEWAY}http/routes/test_health.py::"
STRICT = "tests/runtime/test_strict_json.py::"
RESULTS = "tests/inference_worker/worker/search/test_result_sandbox.py::"
SEARCHES = f"{GATEWAY}openai/test_test_time_compute.py::"
TEXT = "tests/inference_worker/worker/text/"
IMAGES = "tests/inference_worker/vision/test_image_reader.py::"
STRUCTURED = "tests/inference_worker/structured/"
TABLE = f"{REFUSALS}test_refused"
"""The class is a key of `test_refusals.CASES`."""
NO_SUCH_URL = f"{REFUSALS}test_unknown_urls_are_404_with_and_without_a_key"

INDEX: dict[str, list[str]] = {
    # Transport and JSON
    "H1": [TABLE, f"{GATEWAY}openai/test_base.py::test_bodies_that_are_not_requests_are_refused"],
    "H2": [TABLE, f"{STRICT}test_refuses"],
    "H3": [TABLE, f"{STRICT}test_reads_declared_length_first", f"{STRICT}test_reads_no_more_than_it_may"],
    "H4": [f"{HTTP}test_endless_chunked_bodies_are_refused", f"{SERVER}test_an_endless_body_times_out"],
    "H5": [
        f"{HTTP}test_malformed_http_is_400_in_openais_shape_and_closed",
        f"{HTTP}test_data_behind_a_body_is_not_parsed_as_a_request",
        f"{HTTP}test_a_body_shorter_than_its_content_length_times_out",
        f"{HTTP}test_data_behind_a_refused_body_is_not_parsed_as_a_request",
        f"{REFUSALS}test_two_content_lengths_are_refused",
    ],
    "H7": [
        f"{HTTP}test_malformed_http_is_400_in_openais_shape_and_closed",
        f"{HTTP}test_a_thousand_headers_are_refused",
        f"{HTTP}test_an_unfinished_request_times_out",
        f"{REFUSALS}test_too_many_headers_are_431",
    ],
    "H8": [TABLE, f"{STRICT}test_refuses_media_types"],
    "H9": [
        TABLE,
        f"{STRICT}test_refuses_media_types",
        f"{HTTP}test_a_hostile_content_type_costs_no_time_and_no_error",
        f"{GATEWAY}http/routes/test_ollama.py::test_bodies_need_no_content_type",
    ],
    "H11": [TABLE, f"{STRICT}test_refuses"],
    "H12": [TABLE, f"{STRICT}test_refuses"],
    "H13": [TABLE, f"{STRICT}test_refuses"],
    "H15": [TABLE, f"{STRICT}test_refuses"],
    "H17": [TABLE, f"{REFUSALS}test_other_servers_fields_are_ignored"],
    "H19": [f"{HTTP}test_a_host_header_cannot_bypass_authentication", f"{REFUSALS}test_an_invalid_host_is_400"],
    # Semantics
    **{f"H{row}": [TABLE] for row in (21, 22, 23, 25, 26, 27, 28, 29, 30, 31, 34, 36, 39, 42, 43, 46, 49)},
    "H32": [
        "tests/inference_worker/tokenizer/test_tokenizer.py::test_control_tokens_in_content_are_plain_text",
        "tests/inference_worker/tokenizer/test_tokenizer.py::test_user_text_never_becomes_a_control_token",
    ],
    "H33": [TABLE, f"{TEXT}test_chat_template.py::test_a_failing_template_rejects_the_messages"],
    "H37": [
        f"{HTTP}test_hostile_schemas_are_refused_before_they_delay_other_requests",
        TABLE,
        f"{GATEWAY}openai/test_structured_output.py::test_bad_schemas_are_refused_at_once",
        f"{STRUCTURED}test_matchers.py::test_an_invalid_grammar_is_rejected_in_one_line",
        f"{STRUCTURED}test_sandbox.py::test_bombs_do_not_delay_other_checks",
        f"{STRUCTURED}test_sandbox.py::test_one_clients_grammars_do_not_delay_anothers",
        f"{STRUCTURED}test_sandbox.py::test_a_check_that_exceeds_a_limit_is_killed",
        f"{STRUCTURED}test_bombs.py::test_bombs_do_not_slow_down_a_running_stream",
    ],
    "H38": [
        f"{STRUCTURED}test_matchers.py::test_automata_are_shared_and_freed",
        f"{STRUCTURED}test_sandbox.py::test_the_result_cache_is_bounded",
        f"{STRUCTURED}test_bombs.py::test_many_schemas_leak_neither_memory_nor_processes_nor_files",
        f"{STRUCTURED}test_bombs.py::test_the_result_cache_s_memory_is_bounded",
    ],
    "H40": [TABLE, f"{GATEWAY}openai/test_tools.py::test_invalid_tools_are_named"],
    "H41": [
        f"{TEXT}tool_calls/test_call_parser.py::test_text_that_is_not_a_call",
        f"{TEXT}tool_calls/test_call_parser.py::test_an_incomplete_call_keeps_its_arguments_so_far",
        f"{TEXT}tool_calls/test_call_parser.py::test_any_split_gives_the_same_result_and_each_character_is_in_one_span",
        f"{TEXT}tool_calls/test_json_scanner.py::test_depth_is_bounded",
    ],
    "H42": [TABLE, f"{GATEWAY}jobs/test_prompt_images.py::test_nothing_is_fetched_from_other_addresses"],
    "H43": [
        TABLE,
        f"{GATEWAY}jobs/test_prompt_images.py::test_images_are_checked_by_their_headers",
        f"{IMAGES}test_an_unreadable_image_is_refused_by_its_number",
        f"{IMAGES}test_the_child_is_confined",
    ],
    "H146": [
        f"{IMAGES}test_an_unreadable_image_is_refused_by_its_number",
        f"{IMAGES}test_the_child_is_confined",
        f"{IMAGES}test_answers_that_no_image_leads_to_are_the_workers_failure",
        f"{IMAGES}test_what_is_not_an_images_fault_is_no_refusal",
        "tests/runtime/sandbox/test_interpreter.py::test_processes_that_read_untrusted_bytes_have_no_secrets",
        "tests/inference_worker/worker/test_engine_failures.py"
        "::test_images_that_the_worker_could_not_read_are_its_own_error",
    ],
    "H44": [f"{REFUSALS}test_an_image_url_in_a_text_is_text"],
    "H48": [f"{REFUSALS}test_other_servers_fields_are_ignored"],
    "H50": [f"{REFUSALS}test_other_servers_fields_are_ignored"],
    "H51": [
        f"{GATEWAY}http/routes/test_chat_completions.py::test_a_clients_cache_salt_narrows_its_tenants",
        f"{KEYS}test_authenticator.py::test_tenants_have_different_stable_cache_salts",
        "tests/inference_worker/engine/scheduling/test_prefix_cache.py::test_salts_separate",
    ],
    # Streaming
    "H52": [
        "tests/integration/test_concurrent_holds.py::test_the_last_cent_is_spent_once",
        f"{RACES}test_the_last_cent",
    ],
    "H53": [
        f"{SERVER}test_a_disconnect_from_a_stream_cancels_its_job",
        f"{SERVER}test_a_disconnect_before_the_answer_cancels_the_job",
        f"{SERVER}test_a_client_that_disconnects_after_the_last_token_is_billed_in_full",
        f"{CLIENTS}test_a_reset_after_the_headers_costs_nothing",
        f"{CLIENTS}test_a_reset_after_three_chunks_costs_what_was_given_out",
        f"{CLIENTS}test_a_reset_between_the_last_token_and_done_costs_all_of_them",
        f"{CLIENTS}test_a_half_closed_connection_counts_as_a_disconnect",
    ],
    "H55": [
        f"{SERVER}test_a_client_that_does_not_read_is_disconnected_after_a_timeout",
        f"{SERVER}test_a_client_that_does_not_read_is_disconnected_above_a_size",
        f"{CLIENTS}test_clients_that_do_not_read_are_disconnected_without_affecting_other_clients",
        f"{CLIENTS}test_the_kernel_buffers_little_unread_data",
    ],
    "H56": [f"{GATEWAY}http/routes/test_chat_completions.py::test_text_of_a_model_never_breaks_a_frame"],
    "H57": [f"{REFUSALS}test_last_event_id_is_ignored"],
    "H59": [
        f"{GATEWAY}http/test_rate_limits.py::test_streams_hold_their_slots_until_they_end",
        f"{GATEWAY}http/test_unauthenticated_connections.py::test_unauthenticated_connections_are_limited",
        f"{GATEWAY}http/test_unauthenticated_connections.py::test_idle_unauthenticated_connections_are_closed_early",
        "tests/chat_ui/test_served_chat.py::test_signed_in_browsers_behind_one_address_are_not_limited",
    ],
    "H60": [f"{TEXT}test_output_text.py::test_any_split_stops_at_the_same_place"],
    # Other endpoints
    "H61": [
        TABLE,
        f"{GATEWAY}openai/test_prompts.py::test_wrong_prompts",
        f"{GATEWAY}openai/test_base.py::test_prompts_that_cannot_fit_are_refused",
    ],
    "H63": [f"{GATEWAY}http/routes/test_embeddings.py::test_refusals"],
    "H64": [
        f"{REFUSALS}test_unusual_model_names_are_404",
        f"{AUTHENTICATION}test_wrong_credentials",
        f"{GATEWAY}admission/test_model_catalogue.py::test_a_key_sees_its_models_under_all_names_and_no_other_models",
        f"{GATEWAY}admission/test_model_catalogue.py::test_a_key_without_models_sees_none",
        f"{GATEWAY}test_revocation.py::test_a_revoked_key_is_refused_at_once",
    ],
    "H65": [
        f"{GATEWAY}http/test_multipart_form.py::test_malformed_forms_are_refused",
        f"{GATEWAY}http/routes/test_files.py::test_hostile_forms_are_refused_and_leave_nothing",
        "tests/stored_objects/files/test_files.py::test_file_names_are_harmless",
    ],
    "H66": [f"{GATEWAY}http/routes/test_files.py::test_a_file_is_stored_and_read_through_the_other_gateway"],
    **{f"H{row}": [NO_SUCH_URL] for row in (68, 69, 71)},
    "H70": [
        f"{GATEWAY}http/routes/test_batches.py::test_a_malformed_file_fails_before_any_line_runs",
        f"{GATEWAY}http/routes/test_batches.py::test_what_can_not_become_a_batch_is_refused",
        f"{GATEWAY}http/routes/test_batches.py::test_other_projects_find_no_batch",
        f"{GATEWAY}batches/test_input_lines.py::test_a_line_that_is_too_long_is_numbered_and_not_kept",
    ],
    "H72": [
        f"{GATEWAY}answers/test_idempotency.py::test_invalid_keys_are_refused",
        f"{GATEWAY}answers/test_idempotency.py::test_keys_are_separate_by_tenant_and_endpoint",
        f"{GATEWAY}answers/test_idempotency.py::test_the_same_key_with_another_body_is_refused",
        f"{HTTP}test_malformed_http_is_400_in_openais_shape_and_closed",
        f"{GATEWAY}http/routes/test_idempotent.py::test_an_answer_is_not_repeated_to_a_key_that_may_not_use_its_model",
        f"{GATEWAY}http/test_needed_rights.py::test_an_answer_is_not_repeated_to_a_key_that_lost_a_scope",
    ],
    # Keys
    "H73": [
        f"{AUTHENTICATION}test_wrong_credentials",
        f"{AUTHENTICATION}test_conflicting_credentials",
        f"{AUTHENTICATION}test_scheme_in_any_case",
        f"{AUTHENTICATION}test_key_in_the_query_is_not_read",
        f"{AUTHENTICATION}test_every_route_refuses_a_key_without_its_scope_before_the_body_is_read",
    ],
    "H74": [
        f"{AUTHENTICATION}test_wrong_credentials",
        f"{KEYS}test_authenticator.py::test_garbage_never_reaches_the_store",
    ],
    "H75": [
        f"{KEYS}test_authenticator.py::test_unknown_id_and_wrong_secret_are_refused_alike",
        f"{KEYS}test_authenticator.py::test_known_and_unknown_ids_are_compared_in_constant_time",
        f"{AUTHENTICATION}test_all_invalid_keys_get_the_same_response",
    ],
    "H76": [
        f"{GATEWAY}test_revocation.py::test_a_revoked_key_is_refused_at_once",
        f"{KEYS}test_authenticator.py::test_a_revoked_key_is_refused_within_seconds_without_invalidation",
        f"{KEYS}test_authenticator.py::test_a_cached_key_expires_on_time",
        f"{AUTHENTICATION}test_every_route_refuses_a_key_without_its_scope_before_the_body_is_read",
        f"{AUTHENTICATION}test_pages_of_other_origins_cannot_read_responses",
    ],
    # Billing and administration
    "H88": [
        f"{KEYS}money/test_amounts.py::test_malformed_amounts_are_refused",
        f"{KEYS}money/test_amounts.py::test_values_other_than_integers_in_range_are_refused",
        f"{KEYS}money/test_credit.py::test_invalid_amounts_are_refused",
        f"{KEYS}money/test_credit.py::test_credit_never_exceeds_64_bits",
    ],
    "H90": [f"{ORGANIZATION}test_access.py::test_invalid_queries_are_refused"],
    "H91": [
        "tests/runtime/test_tables.py::test_xlsx_has_text_and_numbers_and_no_formula",
        "tests/runtime/test_tables.py::test_csv_cells_do_not_begin_like_formulas",
    ],
    "H92": [f"{ORGANIZATION}test_export.py::test_exports_are_limited_in_rows_and_number"],
    "H93": [
        f"{ORGANIZATION}test_access.py::test_only_administrators_are_authorised",
        f"{ORGANIZATION}test_access.py::test_routes_have_one_method_and_one_path",
    ],
    "H94": [
        f"{KEYS}prices/test_price_file.py::test_an_invalid_file_is_a_one_line_error",
        f"{RACES}test_prices_are_edited_while_jobs_are_held",
    ],
    "H95": [
        f"{KEYS}money/test_credit.py::test_refunds_of_a_job_never_exceed_its_cost",
        f"{KEYS}money/test_credit.py::test_concurrent_refunds_do_not_exceed_the_cost",
        f"{KEYS}money/test_credit.py::test_only_own_settled_jobs_are_refunded",
    ],
    # Internal plane
    "H114": [
        f"{MESSAGES}test_shared_queues_dead_letter_malformed_messages",
        f"{MESSAGES}test_private_queues_drop_malformed_messages",
        f"{MESSAGES}test_undecodable_headers_are_read_as_empty",
        f"{MESSAGES}test_a_connection_survives_undecodable_headers",
        f"{KEYS}test_reaper.py::test_an_undecodable_job_is_kept_for_inspection",
    ],
    "H115": [
        "tests/contract/test_permissions.py::test_a_workers_credentials_do_not_reach_receipts_or_the_platforms_queues",
        "tests/contract/test_permissions.py::test_a_receipt_that_a_worker_publishes_as_a_usage_record_settles_nothing",
        "tests/router/producer/test_recovery.py::test_an_attempt_that_starts_over_after_output_was_delivered_is_stopped",
        "tests/router/producer/test_recovery.py::test_only_a_start_makes_an_attempt_authoritative",
        "tests/router/producer/test_recovery.py::test_a_reply_about_a_choice_that_the_job_lacks_fails_the_request",
        f"{GATEWAY}jobs/test_job_billing.py::test_usage_above_the_hold_is_neither_reported_nor_billed",
        "tests/contract/test_bus.py::test_unsigned_control_messages_are_rejected_and_reported",
        "tests/router/test_control_signing.py::test_any_change_of_a_signed_message_makes_it_forged",
    ],
    "H116": [
        "tests/router/consumer/test_gateway_clocks.py::test_clock_skew_is_corrected",
        "tests/inference_worker/worker/test_worker.py::test_a_worker_with_a_clock_an_hour_off_answers",
    ],
    "H117": [
        f"{MODELS}test_code_of_a_repository_is_never_run",
        f"{MODELS}test_weights_with_a_false_header",
        f"{MODELS}test_links_out_of_the_folder",
        f"{MODELS}test_impossible_numbers_and_shapes",
        f"{MODELS}test_invalid_json_files",
        "tests/inference_worker/engine/weights/test_gguf_config.py::test_impossible_metadata",
        "tests/inference_worker/model_files/test_gguf_parts.py::test_impossible_numbers_of_parts",
        "tests/inference_worker/tokenizer/test_tokenizer_gguf.py::test_damaged_vocabularies",
        f"{MODELS}test_templates_that_would_exhaust_the_machine",
        f"{TEXT}test_chat_template.py::test_time_is_limited",
        f"{TEXT}test_chat_template.py::test_size_is_limited",
    ],
    "H118": [
        f"{OPERATORS}test_operator_pages_are_not_on_the_apis_port",
        f"{OPERATORS}test_health_is_answered_from_memory",
    ],
    "H121": [
        f"{ORGANIZATION}test_rate_limits.py::test_administrators_lower_the_operators_limits_and_do_not_lift_them",
        f"{ORGANIZATION}test_rate_limits.py::test_an_organisation_has_one_limit_over_all_its_projects",
        f"{ORGANIZATION}test_rate_limits.py::test_limits_of_keys_and_people_stay_below_the_operators",
    ],
    "H122": ["tests/infra/accounts/test_embedded_store.py::test_it_serves_no_client_without_the_password"],
    # `/v1/mcp`
    "H140": [f"{MCP}test_messages_that_are_not_valid_are_refused", f"{MCP}test_a_message_has_a_length"],
    "H141": [f"{MCP}test_headers_that_are_not_valid_are_refused"],
    "H142": [
        f"{GATEWAY}mcp/test_protocol.py::test_headers_that_disagree_with_the_body_are_refused",
        f"{GATEWAY}mcp/test_protocol.py::test_headers_that_are_there_twice_are_refused",
    ],
    "H143": [f"{GATEWAY}mcp/test_running_calls.py::test_only_the_named_call_is_cancelled"],
    "H144": [
        "tests/assistant/mcp/test_tool.py::test_consent_is_to_a_name_to_a_described_tool_or_to_one_call",
        f"{MCP}test_messages_that_are_not_valid_are_refused",
    ],
    "H147": [
        f"{MCP}test_limits_and_an_empty_account_are_errors_with_429",
        f"{MCP}test_every_request_counts_towards_the_limits_and_no_notification",
    ],
    "H148": [TABLE, f"{SEARCHES}test_a_wrong_search_is_refused_by_its_field"],
    "H149": [TABLE, f"{SEARCHES}test_a_wrong_search_is_refused_by_its_field"],
    "H150": [
        "tests/inference_worker/search/test_mathematics.py::test_other_results_are_no_mathematics",
        f"{RESULTS}test_results_before_a_limit_are_kept_and_the_others_differ",
        f"{RESULTS}test_without_a_sandbox_and_after_failures_results_differ_as_their_texts",
    ],
}
