"""Reads a tokenizer.json from standard input and tokenizes texts that make bad regular expressions explode.

It runs as a process of its own and imports nothing of troth. The parent sees an exit code and one line, whether the
tokenizer raises, panics, aborts or hangs.
"""

import json
import sys

LENGTH = 200  # characters of a text
_MEMORY = 2 << 30  # limit of the process's memory in bytes
_RUNS = ("a", "A", "é", "中", "0", " ", "\n", ".", "_", "-", "ab", "a ", "a.", "0a", "A a", " \n", "a'", "\u0301")
_WORDS = "It's 12,345.67 o'clock — don't WORRY: ﬁne naïve 東京 ☃ e-mail@example.org\n\n  the\tend…"


def main() -> int:
    """Returns the exit code: 0 if every text was tokenized."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from tokenizers import Tokenizer

    try:
        parts = json.loads(sys.stdin.buffer.read())
        # Only the splitting of texts is tried; reading a vocabulary of thousands of words would take longer.
        parts |= {"model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}, "added_tokens": []}
        parts |= {"post_processor": None, "decoder": None}
        tokenizer = Tokenizer.from_str(json.dumps(parts))
        for run in _RUNS:
            repeated = (run * LENGTH)[: LENGTH - 1]
            for end in ("!", "b", ""):
                tokenizer.encode(repeated + end)
        tokenizer.encode(_WORDS)
    except BaseException as error:  # a panic in Rust is not an Exception
        sys.stdout.write(" ".join(str(error).split()) or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
