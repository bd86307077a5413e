"""The tests of each class of hostile input that the web chat's API meets: rows H77 to H104 of
docs/design/hostile-input.md. `test_hostile_index.py` checks that the named tests exist.
"""

from __future__ import annotations

API = "tests/chat_ui/http/test_api.py::"
TOKENS = "tests/auth_billing/people/test_access_tokens.py::"
SESSIONS = "tests/auth_billing/people/test_sessions.py::"
SIGN_IN = "tests/auth_billing/people/test_sign_in.py::"
PASSWORDS = "tests/auth_billing/people/test_passwords.py::"
PEOPLE = "tests/auth_billing/people/test_directory.py::"

TENANCY = "tests/chat_ui/test_tenancy.py::"
FILES = "tests/chat_ui/test_files.py::"

INDEX: dict[str, list[str]] = {
    "H77": [
        f"{TOKENS}test_algorithms_that_are_none",
        f"{TOKENS}test_the_right_key_with_another_algorithm",
        f"{TOKENS}test_a_public_key_is_no_secret",
    ],
    "H78": [f"{TOKENS}test_claims_that_we_do_not_make"],
    "H79": [
        f"{TOKENS}test_keys_that_are_not_ours",
        f"{TOKENS}test_keys_in_the_header_are_not_used",
        f"{TOKENS}test_critical_extensions_are_refused",
    ],
    "H80": [
        f"{TOKENS}test_other_kinds_of_token",
        f"{TOKENS}test_what_is_no_jwt_at_all",
        f"{SESSIONS}test_tokens_are_good_for_one_thing_only",
        f"{SIGN_IN}test_an_api_key_is_no_password",
        f"{API}test_tokens_in_the_wrong_place_let_nobody_in",
    ],
    "H82": [
        f"{SIGN_IN}test_ten_tries_a_minute_for_one_account_from_anywhere",
        f"{SIGN_IN}test_ten_tries_a_minute_from_one_address_for_any_account",
        f"{SIGN_IN}test_who_is_unknown_costs_what_a_wrong_password_costs",
        f"{SIGN_IN}test_wrong_passwords",
        f"{PASSWORDS}test_what_is_too_long_is_not_hashed",
        f"{PASSWORDS}test_two_keyboards_type_the_same_password",
        f"{PASSWORDS}test_more_checks_than_may_wait_are_refused_and_places_come_back",
        f"{API}test_who_is_unknown_and_whose_password_is_wrong_are_answered_alike",
        f"{API}test_too_many_tries_are_told_when_to_come_again",
    ],
    "H83": [
        f"{API}test_nobody_gives_himself_what_was_not_given",
        f"{API}test_fields_that_nobody_can_have",
        f"{PEOPLE}test_what_is_no_address",
        f"{PEOPLE}test_what_is_no_name",
    ],
    "H84": [
        f"{SESSIONS}test_a_refresh_token_that_is_used_again_ends_the_session",
        f"{SESSIONS}test_only_the_direct_predecessor_has_a_grace",
        f"{SESSIONS}test_two_tabs_get_the_same_successor",
        f"{API}test_a_session_is_refreshed_and_a_stolen_token_ends_it",
    ],
    "H85": [
        f"{API}test_no_other_site_signs_anybody_in_or_out",
        f"{API}test_without_the_csrf_token_nothing_changes",
        f"{API}test_what_a_form_can_send_is_not_read",
        f"{API}test_there_is_no_cross_origin_sharing",
    ],
    "H87": [
        f"{SESSIONS}test_all_sessions_of_a_person_end_within_seconds_everywhere",
        f"{SESSIONS}test_signing_out_ends_one_session_here_at_once_and_elsewhere_within_seconds",
        f"{PEOPLE}test_keys_that_give_more_than_the_role_end_with_it",
    ],
    "H91": [
        f"{FILES}test_a_spreadsheet_has_text_and_numbers_and_no_formula",
        f"{FILES}test_csv_has_no_cell_that_begins_as_a_formula_does",
    ],
    "H93": [f"{API}test_what_there_is_not", f"{API}test_administrators_invite_and_others_do_not"],
    "H101": [f"{API}test_cookies_over_https_are_out_of_reach", f"{API}test_cookies_over_plain_http_have_other_names"],
    "H103": [
        f"{API}test_people_and_invitations_of_others_do_not_exist",
        f"{TENANCY}test_every_route_says_that_it_is_not_there",
        f"{TENANCY}test_another_persons_message_is_no_parent_and_no_leaf",
        f"{TENANCY}test_another_persons_answer_can_not_be_stopped",
        f"{TENANCY}test_only_administrators_administer",
    ],
    "H104": [f"{API}test_bodies_that_are_none", f"{API}test_a_missing_body_is_missing"],
}
