"""Tests by class of hostile input to the assistant's tools: rows H105 and H128 to H139 of
docs/design/hostile-input.md. `test_hostile_index.py` checks that the named tests exist.
"""

from __future__ import annotations

MCP = "tests/assistant/mcp/"
PAGES = "tests/assistant/test_injected_pages.py::"
WEB_PAGE = "tests/assistant/tools/test_web_page.py::"
PAGE_TEXT = "tests/assistant/tools/test_page_text.py::"
HTTP = "tests/assistant/tools/test_http_client.py::"
MATHEMATICS = "tests/assistant/tools/mathematics/"
COMPUTING = f"{MATHEMATICS}test_process.py::"
STEP_CARDS = "tests/chat_ui/test_steps_in_chromium.py::"

INDEX: dict[str, list[str]] = {
    "H105": [
        f"{PAGES}test_a_page_that_asks_for_a_call_leads_to_none",
        f"{MCP}test_answers.py::test_a_result_that_asks_for_a_call_leads_to_none",
        f"{MCP}test_answers.py::test_an_earlier_answer_that_repeats_a_result_leads_to_no_call",
        f"{WEB_PAGE}test_long_and_injecting_pages_are_delimited",
    ],
    "H128": [
        f"{PAGES}test_a_routing_model_can_not_choose_another_address",
        f"{PAGES}test_an_address_in_an_answer_is_not_opened",
        f"{WEB_PAGE}test_other_pages_are_refused",
    ],
    "H129": [
        f"{MCP}test_answers.py::test_a_question_without_consent_fails_the_step_and_is_answered",
        f"{MCP}test_servers.py::test_a_changed_tool_is_off_until_it_is_as_approved_again",
    ],
    "H130": [
        f"{COMPUTING}test_hostile_expressions_are_refused_without_a_process",
        "tests/runtime/mathematics/test_bounds.py::test_refused_at_once",
        f"{MATHEMATICS}test_solving.py::test_polynomials_with_too_many_roots_are_refused_before_they_are_solved",
    ],
    "H131": [
        f"{COMPUTING}test_hard_computations_end",
        f"{COMPUTING}test_memory_is_limited",
        f"{COMPUTING}test_plots_with_poles_are_drawn",
        "tests/runtime/sandbox/test_fork_server.py::test_work_can_not",
    ],
    "H132": [
        f"{COMPUTING}test_a_computation_does_not_wait_for_anothers_bombs",
        f"{PAGE_TEXT}test_a_page_does_not_wait_for_anothers_malformed_ones",
        f"{WEB_PAGE}test_a_page_does_not_wait_for_anothers_slow_ones",
    ],
    "H133": [f"{PAGE_TEXT}test_documents_that_take_quadratic_time_are_refused"],
    "H134": [
        f"{HTTP}test_private_addresses_are_refused",
        f"{HTTP}test_a_name_of_a_private_address_is_refused",
        f"{HTTP}test_refused_urls",
        "tests/assistant/tools/test_public_addresses.py::test_refuses",
    ],
    "H135": [
        f"{HTTP}test_redirects_to_private_addresses_are_refused",
        f"{HTTP}test_redirects_to_other_schemes_are_refused",
        f"{HTTP}test_redirects_are_followed_three_times",
    ],
    "H136": [f"{HTTP}test_rebinding_does_not_move_a_connection"],
    "H137": [f"{HTTP}test_bombs_are_not_inflated", f"{HTTP}test_endless_bodies_are_refused"],
    "H138": [
        f"{HTTP}test_slow_bodies_are_refused_long_before_the_time_limit",
        f"{HTTP}test_slow_responses_end_in_time",
        f"{WEB_PAGE}test_a_page_does_not_wait_for_anothers_slow_ones",
    ],
    "H139": [f"{STEP_CARDS}test_texts_and_hostile_results_render_no_image"],
}
