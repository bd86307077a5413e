"""Tests by class of hostile input to the parsers of documents: rows H151 to H155 of docs/design/hostile-input.md.
`test_hostile_index.py` checks that the named tests exist.
"""

from __future__ import annotations

PARSER = "tests/documents/parsing/test_parser.py::"
READER = "tests/documents/parsing/test_reader.py::"
PDF = "tests/documents/parsing/test_pdf.py::"

INDEX: dict[str, list[str]] = {
    "H151": [
        f"{PARSER}test_zip_bombs_are_refused_before_they_are_inflated",
        f"{PARSER}test_a_part_that_is_larger_than_it_claims_is_not_inflated_further",
        f"{PARSER}test_parts_that_are_not_read_may_be_bombs",
        f"{PARSER}test_archives_of_many_parts_are_refused",
        f"{PARSER}test_names_with_paths_and_links_lead_nowhere",
    ],
    "H152": [
        f"{PARSER}test_entities_are_refused",
        f"{PARSER}test_entities_of_html_are_not_expanded",
        "tests/documents/parsing/test_html.py::test_deep_nesting_ends_without_an_error",
    ],
    "H153": [
        f"{PARSER}test_loops_in_a_pdf_end",
        f"{PARSER}test_claims_of_a_billion_pages_are_refused",
        f"{PARSER}test_a_cross_reference_table_that_is_before_itself_ends",
        f"{PARSER}test_scripts_of_a_pdf_are_not_run",
        f"{PDF}test_claims_of_many_pages_are_refused",
        f"{PDF}test_pages_that_are_only_claimed_are_damaged",
    ],
    "H154": [
        f"{PARSER}test_large_files_are_refused_before_they_are_read",
        f"{PARSER}test_damaged_files_are_refused_or_read_in_part",
        f"{PARSER}test_claimed_cells_take_neither_memory_nor_time",
        f"{PARSER}test_macros_and_external_targets_are_ignored",
        f"{PARSER}test_names_with_paths_and_links_lead_nowhere",
        f"{PARSER}test_a_file_that_takes_too_much_time_is_refused",
        f"{PARSER}test_a_file_that_takes_too_much_memory_is_refused",
        f"{PARSER}test_a_parser_that_fails",
    ],
    "H155": [
        f"{READER}test_huge_images_are_not_decoded",
        f"{READER}test_an_image_that_claims_more_pixels_than_it_has_is_harmless",
        f"{READER}test_pages_that_take_too_long_are_named_and_those_before_are_kept",
        f"{READER}test_of_500_scanned_pages_those_are_read_for_which_there_is_time",
        f"{READER}test_the_text_of_a_file_outlives_its_recognition",
        "tests/documents/parsing/test_leptonica.py::test_huge_images_are_refused_by_their_header",
        "tests/documents/parsing/test_leptonica.py::test_damaged_images_are_refused",
        "tests/documents/parsing/test_pdf_image.py::test_huge_images_are_not_decoded",
    ],
}
