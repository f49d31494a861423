"""The compiled loop that finds names of labels in texts.

Words of a text are numbers: `id * 4 + kind`, -1 for a word that is part of no name. A name is
looked up by its rarest stem, then its other words are compared: in order, near each other, or
anywhere in the text. `name_matcher.py` describes the arrays.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace.features.name_codes import COLUMNS, N_PROPERTIES, pack

SAME, FOLDED, STEM, PART = 0, 1, 2, 3  # kinds of words in a text
ANYWHERE, NEAR, IN_ORDER = 0, 1, 2
SLACK = 3  # words that may stand between the words of a name that are near each other
# Columns of the occurrences that are found in a text.
_LABEL, _PLACE, _ORDER, _LIKENESS, _WORDS, _FORM = range(6)


@loop_part
def _likeness(code, word, word_folded):  # type: ignore[no-untyped-def]
    """Return 3 for the same word, 2 in another case, 1 of the same stem, 0 for a part of a word."""
    kind, number = code & 3, code >> 2
    if kind == SAME:
        if number == word:
            return 3
        return 2 if word_folded[number] == word_folded[word] else 1
    if kind == FOLDED:
        return 2 if number == word_folded[word] else 1
    return 1 if kind == STEM else 0


@loop_part
def _holds(ordered, stem):  # type: ignore[no-untyped-def]
    place = np.searchsorted(ordered, stem)
    return place < len(ordered) and ordered[place] == stem


@loop_part
def _logarithm(x, scale):  # type: ignore[no-untyped-def]
    return int(scale * np.log2(1.0 + x))


@loop_part
def _occurrences(codes, stems, place, words, cover, names):  # type: ignore[no-untyped-def]
    """Return the occurrences of names in a text, in the order of their words.

    `stems` and `place` have the stem and the position of each code; `words` has the code at each
    position, and `cover` gets the length of the longest name there.
    """
    word_stem, word_folded, _, form_ptr, form_words, form_label, key_ptr, key_forms, offsets = names
    ordered, n_words = np.sort(stems), len(cover)
    found, count = np.empty((64, 6), np.int64), 0
    for i in range(len(codes)):
        stem = stems[i]
        if stem < 0:
            continue
        is_part = codes[i] & 3 == PART
        for entry in range(key_ptr[stem], key_ptr[stem + 1]):
            form = key_forms[entry]
            start, stop = form_ptr[form], form_ptr[form + 1]
            size, at = stop - start, place[i]
            order, likeness = IN_ORDER, _likeness(codes[i], form_words[start], word_folded)
            if size > 1:
                known = True
                for j in range(start, stop):
                    known = known and _holds(ordered, word_stem[form_words[j]])
                if not known:
                    continue
                likeness, first = 3, at - offsets[entry]
                in_order, j = not is_part and first >= 0 and first + size <= n_words, 0
                while in_order and j < size:
                    own, word = words[first + j], form_words[start + j]
                    in_order = stems[own] == word_stem[word]
                    if in_order:
                        likeness = min(likeness, _likeness(codes[own], word, word_folded))
                    j += 1
                if in_order:
                    at = first
                else:
                    order, likeness = NEAR, 0 if is_part else 1
                    low, high = max(0, at - size - SLACK), min(n_words, at + size + SLACK)
                    first_code, last_code = words[low], len(codes)
                    if high < n_words:
                        last_code = words[high]
                    for j in range(start, stop):
                        wanted, is_near = word_stem[form_words[j]], False
                        for other in range(first_code, last_code):
                            is_near = is_near or stems[other] == wanted
                        if not is_near:
                            order = ANYWHERE
            if order == IN_ORDER and not is_part:
                for j in range(at, at + size):
                    cover[j] = max(cover[j], size)
            if count == len(found):
                longer = np.empty((2 * count, 6), np.int64)
                longer[:count] = found
                found = longer
            found[count, _LABEL], found[count, _PLACE] = form_label[form], at
            found[count, _ORDER], found[count, _LIKENESS] = order, likeness
            found[count, _WORDS], found[count, _FORM] = size, form
            count += 1
    return found[:count]


@loop
def match_text(codes, title, names, traits):  # type: ignore[no-untyped-def]
    """Return the columns and the numbers of one text: two of each per matched label.

    Parameters
    ----------
    codes : ndarray of int64
        The words; parts of a compound follow it.
    title : int
        How many codes belong to the title.
    names : tuple of ndarray
        `word_stem`, `word_folded`, `folded_stem`, `form_ptr`, `form_words`, `form_label`,
        `key_ptr`, `key_forms` and `key_offset` of a `NameMatcher`.
    traits : ndarray of shape (n_forms, 6)
        Preferred, unqualified, split, shared, letters, language.
    """
    word_stem, folded_stem, n = names[0], names[2], len(codes)
    stems, place, words = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_words = n_title = 0
    for i in range(n):
        kind, number = codes[i] & 3, codes[i] >> 2
        if codes[i] < 0:
            stems[i] = -1
        elif kind == SAME:
            stems[i] = word_stem[number]
        elif kind == FOLDED:
            stems[i] = folded_stem[number]
        else:
            stems[i] = number
        if codes[i] < 0 or kind != PART:
            words[n_words] = i
            n_words += 1
            if i < title:
                n_title = n_words
        place[i] = n_words - 1
    cover = np.zeros(n_words, np.int64)
    found = _occurrences(codes, stems, place, words, cover, names)
    by_label = np.argsort(found[:, _LABEL], kind="mergesort")
    columns = np.empty(COLUMNS * len(found), np.int64)
    numbers = np.empty(COLUMNS * len(found), np.float32)
    values, n_found, position = np.empty(N_PROPERTIES, np.int64), 0, 0
    while position < len(by_label):
        label = found[by_label[position], _LABEL]
        count = last = in_title = parts = 0
        first, is_nested, best = n_words, 1, by_label[position]
        while position < len(by_label) and found[by_label[position], _LABEL] == label:
            entry = by_label[position]
            at, order, size = found[entry, _PLACE], found[entry, _ORDER], found[entry, _WORDS]
            first, last = min(first, at), max(last, at)
            if order != ANYWHERE:
                count += 1
                if at < n_title:
                    in_title = 1
            within = False
            if order == IN_ORDER:
                if found[entry, _LIKENESS] == 0:
                    parts += 1
                for j in range(at, at + size):
                    within = within or cover[j] > size
            if not within:
                is_nested = 0
            # The best name describes the match: in order, then alike, then long.
            for trait in (_ORDER, _LIKENESS, _WORDS):
                if found[entry, trait] != found[best, trait]:
                    if found[entry, trait] > found[best, trait]:
                        best = entry
                    break
            position += 1
        values[0], values[1] = count, _logarithm(first, 2.0)
        values[2], values[3] = 16 * first // n_words, _logarithm(last - first, 1.5)
        values[4], values[5] = in_title, _logarithm(n_words, 1.5)
        values[6], values[7] = found[best, _ORDER], found[best, _LIKENESS]
        values[8], values[9], values[10] = found[best, _WORDS], is_nested, parts
        values[11:] = traits[found[best, _FORM]]
        columns[n_found], columns[n_found + 1] = COLUMNS * label, COLUMNS * label + 1
        numbers[n_found], numbers[n_found + 1] = pack(values)
        n_found += COLUMNS
    return columns[:n_found], numbers[:n_found]
