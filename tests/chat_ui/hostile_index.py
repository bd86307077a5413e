"""Tests by class of hostile input to the chat API: rows H77 to H104, H119, H120 and H123 to H127 and H145 of
docs/design/hostile-input.md. `test_hostile_index.py` checks that the named tests exist.
"""

from __future__ import annotations

API = "tests/chat_ui/http/test_api.py::"
TOKENS = "tests/auth_billing/people/test_access_tokens.py::"
SESSIONS = "tests/auth_billing/people/test_sessions.py::"
SIGN_IN = "tests/auth_billing/people/test_sign_in.py::"
PASSWORDS = "tests/auth_billing/people/test_passwords.py::"
MEMBERS = "tests/auth_billing/people/test_members.py::"
OWNER = "tests/auth_billing/people/test_local_owner.py::"
INPUT = "tests/auth_billing/people/test_input_normalisation.py::"
THROTTLE = "tests/auth_billing/people/test_throttle.py::"

REMOVED = "tests/chat_ui/test_removed_people.py::"
TENANCY = "tests/chat_ui/test_tenancy.py::"
SERVED = "tests/chat_ui/test_served_chat.py::"
RESET = "tests/auth_billing/people/test_password_reset.py::"
RESET_API = "tests/chat_ui/http/test_password_reset.py::"
RESET_MAILS = "tests/auth_billing/people/test_reset_mails.py::"
FACTOR = "tests/auth_billing/people/test_second_factor.py::"
FACTOR_SIGN_IN = "tests/auth_billing/people/test_second_factor_sign_in.py::"
CHALLENGES = "tests/auth_billing/people/test_second_factor_challenges.py::"
KEYS = "tests/auth_billing/keys/test_key_management.py::"
IMPORTS = "tests/chat_ui/test_hostile_imports.py::"
QUESTION_IMAGES = "tests/chat_ui/test_question_images.py::"
STORAGE = "tests/chat_ui/test_storage_limit.py::"
SANDBOX = "tests/runtime/sandbox/test_process.py::"
FILES = "tests/chat_ui/test_export_import.py::"
STEPS = "tests/chat_ui/test_answer_steps.py::"
STEP_LIMITS = "tests/chat_ui/history/test_steps.py::"
STEP_CARDS = "tests/chat_ui/test_steps_in_chromium.py::"

INDEX: dict[str, list[str]] = {
    "H77": [
        f"{TOKENS}test_the_algorithm_none_is_refused",
        f"{TOKENS}test_the_right_key_with_another_algorithm_is_refused",
        f"{TOKENS}test_a_public_key_is_not_accepted_as_a_secret",
    ],
    "H78": [f"{TOKENS}test_invalid_claims_are_refused"],
    "H79": [
        f"{TOKENS}test_unknown_keys_are_refused",
        f"{TOKENS}test_keys_in_the_header_are_ignored",
        f"{TOKENS}test_critical_extensions_are_refused",
    ],
    "H80": [
        f"{TOKENS}test_other_kinds_of_token_are_refused",
        f"{TOKENS}test_malformed_tokens_are_refused",
        f"{SESSIONS}test_access_and_refresh_tokens_are_not_interchangeable",
        f"{SIGN_IN}test_an_api_key_is_not_a_password",
        f"{API}test_tokens_in_the_wrong_place_are_refused",
    ],
    "H82": [
        f"{THROTTLE}test_ten_attempts_a_minute_per_account",
        f"{THROTTLE}test_ten_attempts_a_minute_per_network_address",
        f"{SIGN_IN}test_an_unknown_address_costs_the_same_as_a_wrong_password",
        f"{SIGN_IN}test_wrong_passwords_are_refused",
        f"{PASSWORDS}test_too_long_a_password_is_not_hashed",
        f"{PASSWORDS}test_passwords_are_compared_in_nfkc",
        f"{PASSWORDS}test_excess_checks_are_refused_until_others_end",
        f"{API}test_an_unknown_address_and_a_wrong_password_get_the_same_response",
        f"{API}test_too_many_sign_in_attempts_get_a_retry_after",
    ],
    "H83": [
        f"{API}test_unknown_body_fields_are_ignored",
        f"{API}test_invalid_fields_are_refused_by_name",
        f"{INPUT}test_invalid_addresses_are_refused",
        f"{INPUT}test_invalid_names_are_refused",
        f"{API}test_the_local_owners_address_is_refused_at_sign_up",
        f"{OWNER}test_another_user_with_the_local_owners_address_is_not_signed_in",
    ],
    "H84": [
        f"{SESSIONS}test_reusing_a_refresh_token_ends_the_session",
        f"{SESSIONS}test_the_grace_period_covers_only_the_previous_token",
        f"{SESSIONS}test_two_tabs_get_the_same_successor",
        f"{API}test_a_reused_refresh_token_ends_the_session",
    ],
    "H85": [
        f"{API}test_cross_site_requests_are_refused",
        f"{API}test_requests_without_the_csrf_token_are_refused",
        f"{API}test_content_types_of_forms_are_refused",
        f"{API}test_there_are_no_cors_headers",
    ],
    "H87": [
        f"{SESSIONS}test_all_sessions_of_a_user_end_within_seconds_at_each_gateway",
        f"{SESSIONS}test_sign_out_is_immediate_locally_and_within_seconds_elsewhere",
        f"{MEMBERS}test_keys_with_more_rights_than_the_new_role_are_revoked",
        f"{REMOVED}test_a_removed_person_changes_nothing_through_another_gateways_cache",
    ],
    "H91": [
        f"{FILES}test_spreadsheets_have_no_formulas",
        f"{FILES}test_csv_cells_do_not_begin_like_formulas",
    ],
    "H93": [f"{API}test_unknown_paths_and_methods", f"{API}test_only_administrators_invite"],
    "H101": [
        f"{API}test_cookies_over_https_have_the_host_prefix_and_are_http_only",
        f"{API}test_cookies_over_plain_http_have_other_names",
    ],
    "H103": [
        f"{API}test_people_and_invitations_of_other_organisations_are_not_found",
        f"{TENANCY}test_every_route_answers_404_for_other_owners",
        f"{TENANCY}test_another_persons_message_can_not_be_parent_or_leaf",
        f"{TENANCY}test_another_persons_answer_can_not_be_stopped",
        f"{TENANCY}test_only_administrators_administer",
        f"{API}test_founders_by_open_sign_up_do_not_see_the_installation",
    ],
    "H104": [f"{API}test_invalid_bodies_are_refused", f"{API}test_a_missing_body_is_refused"],
    "H125": [
        f"{RESET}test_a_link_sets_the_password_once_and_ends_all_sessions",
        f"{RESET}test_of_concurrent_uses_one_counts",
        f"{RESET}test_a_newer_link_voids_the_older",
        f"{RESET}test_a_link_expires",
        f"{RESET}test_a_link_needs_its_makers_right_at_its_use",
        f"{RESET}test_administrators_make_no_links_for_their_equals",
        f"{RESET_API}test_nobody_makes_links_for_equals_or_for_other_organisations",
        f"{RESET_API}test_the_link_is_mailed_and_responses_do_not_depend_on_the_account",
        f"{RESET_MAILS}test_a_request_touches_no_account",
        f"{RESET_MAILS}test_requests_are_throttled_by_e_mail_address_and_by_network_address",
    ],
    "H126": [
        f"{FACTOR}test_a_code_counts_once_and_older_ones_no_more",
        f"{FACTOR}test_ten_tries_an_hour_over_all_gateways",
        f"{FACTOR}test_another_persons_codes_are_wrong",
        f"{FACTOR_SIGN_IN}test_the_code_opens_the_session",
        f"{FACTOR_SIGN_IN}test_a_challenge_expires_and_ends_with_the_password",
        f"{FACTOR_SIGN_IN}test_an_invitation_is_accepted_with_the_code",
        f"{FACTOR_SIGN_IN}test_registering_does_not_avoid_the_code",
        f"{CHALLENGES}test_other_tokens_are_no_challenges_and_challenges_no_other_tokens",
    ],
    "H119": [
        f"{REMOVED}test_a_used_invitation_does_not_let_a_removed_member_back_in",
        f"{REMOVED}test_an_invitation_is_used_once_by_a_member_too",
        f"{REMOVED}test_other_invitations_to_a_removed_persons_address_are_revoked",
        f"{REMOVED}test_invitations_of_a_removed_administrator_are_revoked_for_good",
        f"{REMOVED}test_an_invitation_needs_an_inviter_who_may_still_give_its_role",
    ],
    "H120": [
        f"{REMOVED}test_sessions_from_before_a_removal_stay_ended",
        f"{REMOVED}test_share_links_of_a_removed_person_show_nothing",
        f"{SERVED}test_a_removed_administrator_keeps_nothing_at_any_gateway",
        f"{KEYS}test_a_key_created_while_its_maker_is_removed_is_revoked",
        f"{MEMBERS}test_an_interrupted_removal_is_completed_by_the_next",
    ],
    "H123": [
        f"{IMPORTS}test_a_file_that_exceeds_a_limit_is_refused",
        f"{IMPORTS}test_a_file_that_breaks_the_parser_is_refused",
        f"{IMPORTS}test_endless_output_ends_the_import",
        f"{IMPORTS}test_without_a_sandbox_imports_are_refused",
        f"{IMPORTS}test_nothing_is_read_for_an_import_that_can_not_begin",
        f"{SANDBOX}test_work_can_not",
        f"{SANDBOX}test_work_that_exceeds_a_limit_is_ended",
        f"{SANDBOX}test_neither_capabilities_nor_new_privileges_are_needed",
    ],
    "H127": [
        f"{STEPS}test_exports_have_the_results_and_imports_keep_them_without_images",
        f"{STEPS}test_images_have_signed_addresses_wherever_they_are_served",
        f"{STEP_LIMITS}test_results_beyond_the_limits_are_dropped",
        f"{STEP_LIMITS}test_other_data_beyond_the_limits_is_dropped_too",
        f"{STEP_CARDS}test_texts_and_hostile_results_render_no_image",
    ],
    "H145": [
        f"{QUESTION_IMAGES}test_what_is_no_acceptable_image_is_not_stored",
        f"{QUESTION_IMAGES}test_an_upload_has_the_bytes_of_a_prompt_at_most",
        f"{QUESTION_IMAGES}test_a_question_has_as_many_images_as_a_prompt_at_most",
        f"{QUESTION_IMAGES}test_images_of_a_question_have_the_bytes_of_a_prompt_together",
        f"{QUESTION_IMAGES}test_images_of_others_cannot_be_attached",
        f"{QUESTION_IMAGES}test_stored_objects_that_are_no_images_cannot_be_attached",
        f"{QUESTION_IMAGES}test_viewers_cannot_upload",
        f"{QUESTION_IMAGES}test_images_count_towards_the_quota_of_stored_objects",
    ],
    "H124": [
        f"{STORAGE}test_questions_are_counted_and_refused",
        f"{STORAGE}test_system_prompts_are_counted",
        f"{STORAGE}test_answers_are_counted",
        f"{STORAGE}test_imports_are_counted_and_skip_what_does_not_fit",
        f"{STORAGE}test_the_limit_holds_over_two_gateways",
        f"{SERVED}test_the_operators_limit_of_stored_bytes_holds_over_gateways",
    ],
}
