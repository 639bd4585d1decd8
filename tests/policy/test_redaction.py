"""Secrets as written by users, programs and issuers, and ordinary text that must stay.

Mutants: a group of issuers is omitted; names are not split into words; a name-value pair is not
detected; a value is shown in pieces; a value under a plain name is redacted; the bounds on nested
values and on tokens are lifted.
"""

import json
import resource
import string
import subprocess
import sys
from random import Random

import pytest

from taofold.core.effects import Act
from taofold.core.values import Action, Thought
from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.stream import Trickle
from taofold.runtime.redaction import redact_json, redact_step

LETTERS = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"


def drawn(length: int, alphabet: str = LETTERS, seed: int = 1) -> str:
    """Returns a reproducible random value with a digit and both cases."""
    rest = "".join(Random(seed * 1000 + length).choices(alphabet, k=length - 3))
    return rest + ("a7f" if alphabet == HEX else "x7Q" if "Q" in alphabet else "x7q")


KEY = drawn(40)
TOKENS = {
    "github": "ghp_" + drawn(36),
    "github, fine-grained": "github_pat_" + drawn(22) + "_" + drawn(59),
    "gitlab": "glpat-" + drawn(20),
    "gitlab runner": "glrt-" + drawn(20),
    "stripe": "sk_live_" + drawn(24),
    "stripe, restricted": "rk_test_" + drawn(24),
    "stripe webhook": "whsec_" + drawn(32),
    "hugging face": "hf_" + drawn(34),
    "npm": "npm_" + drawn(36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + drawn(80),
    "openai": "sk-proj-" + drawn(74),
    "anthropic": "sk-ant-api03-" + drawn(95),
    "groq": "gsk_" + drawn(52),
    "google": "AIza" + drawn(35),
    "google oauth": "ya29." + drawn(60),
    "aws": "AKIA" + drawn(16, string.ascii_uppercase + "234567")[:13] + "ABC",
    "slack": "xoxb-" + drawn(12, string.digits)[:11] + "1-" + drawn(24),
    "slack app": "xapp-1-A" + drawn(10, string.ascii_uppercase + "Q") + "-" + drawn(64),
    "sendgrid": "SG." + drawn(22) + "." + drawn(43),
    "digital ocean": "dop_v1_" + drawn(64, HEX),
    "docker": "dckr_pat_" + drawn(27),
    "shopify": "shpat_" + drawn(32, HEX),
    "twilio": "SK" + drawn(32, HEX),
    "telegram": "123456789:AA" + drawn(33),
    "vault": "hvs." + drawn(90),
    "jwt": f"eyJ{drawn(30)}.eyJ{drawn(60)}.{drawn(43)}",
    "taofold": "tf_0a1b2c3d_" + drawn(43),
}
NAMED = {
    "environment": f"DB_PASSWORD={drawn(12)}",
    "environment, a plain word": "DB_PASSWORD=correcthorse",
    "compose": f"      POSTGRES_PASSWORD: {drawn(12)}",
    "own key": f"MY_API_KEY={drawn(16)}",
    "aws": f"AWS_SECRET_ACCESS_KEY={KEY}",
    "export": f"export GITHUB_TOKEN={KEY}",
    "json in text": f'got {{"db_password": "{drawn(12)}", "port": 1}} back',
    "json, indented": f'{{\n  "client_secret":\n    "{KEY}"\n}}',
    "json in json": json.dumps({"body": json.dumps({"password": drawn(12)})}),
    "listing": json.dumps([{"name": "API_TOKEN", "value": KEY}]),
    "kubernetes": f"- name: DB_PASSWORD\n  value: {drawn(12)}",
    "yaml": f"smtp:\n  password: {drawn(14)}\n",
    "yaml block": f"password: |\n  {drawn(14)}\n",
    "toml": f'secret_key = "{KEY}"',
    "python": f'client = Client(api_key="{KEY}")',
    "javascript": f"const authToken = '{KEY}';",
    "go": f'apiKey := "{KEY}"',
    "typed": f'password: str | None = "{drawn(12)}"',
    "where a type would stand": f"password: {drawn(12)} = x",
    "xml": f"<password>{drawn(12)}</password>",
    "command line": f"mysql --password={drawn(12)} -h db",
    "command line, apart": f"tool --token {KEY} run",
    "curl": f"curl -s -u admin:{drawn(12)} https://example.org/",
    "netrc": f"machine example.org login me password {drawn(12)}",
    "header": f"X-Api-Key: {KEY}",
    "bearer": f"Authorization: Bearer {KEY}",
    "basic": f"Authorization: Basic {KEY}==",
    "cookie": f"Set-Cookie: session={KEY}; HttpOnly",
    "query": f"https://example.org/x?access_token={KEY}&y=1",
    "address": f"postgres://user:{drawn(12)}@db:5432/app",
    "address, a token": f"https://{KEY}@github.com/x/y.git",
    "slack hook": f"https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/{drawn(24)}",
    "sign-in link": f"http://127.0.0.1:8420/signin/{drawn(32)}",
    "store": f"connectionString={KEY}",
    "store, in YAML": f"db_connection_string: {KEY}",
    "said": f"the password is {drawn(12)}",
    "cut off": f'{{"password": "{drawn(12)}',
    "brackets that cross": "db_pass = m{{h}o)p${e]nob(ody[finds>-_$#thisone}}",
    "pem": f"-----BEGIN PRIVATE KEY-----\n{drawn(64)}\n{drawn(64)}\n-----END PRIVATE KEY-----",
}
SECRETS = {
    **{name: (token, token) for name, token in TOKENS.items()},
    **{f"named: {name}": (text, text) for name, text in NAMED.items()},
}
VALUES = [KEY, *(drawn(length) for length in (12, 14, 16, 24, 32, 64)), "correcthorse"]


def leaks(text: str, shown: str) -> list[str]:
    """Returns the secrets that `text` still shows."""
    hidden = [*TOKENS.values(), *VALUES, "nob(ody[finds"]
    return [value for value in hidden if value in text and value in shown]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_taken_out(name: str) -> None:
    text, _ = SECRETS[name]
    shown = Redactor(guesses=True).text(f"before {text}")
    assert MARK in shown
    assert not leaks(text, shown)


GUESSED_TOKENS = ("stripe, restricted", "twilio", "telegram", "jwt")
CERTAIN = {
    **{name: token for name, token in TOKENS.items() if name not in GUESSED_TOKENS},
    "pem": NAMED["pem"],
    "pem, in a program": json.dumps(NAMED["pem"]),
}
GUESSED = {
    **{name: TOKENS[name] for name in GUESSED_TOKENS},
    **{name: text for name, text in NAMED.items() if name != "pem"},
    "pem, a template": "-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----",
    "github, a placeholder": "ghp_" + "x" * 36,
    "slack, a placeholder": "xoxb-your-token-goes-here",
    "aws, an example": "AKIAIOSFODNN7EXAMPLE",
    "a function": "napi_get_value_string_utf8_and_its_length gsk_render_node_get_bounds_of",
    "a class of a style sheet": "sk-fading-circle-container2 key-0a1b2c3d",
    "go test": "--- PASS: TestAll (0.00s)",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_taken_out_before_it_is_recorded(name: str) -> None:
    text = CERTAIN[name]
    shown = Redactor().text(f"before {text}")
    assert MARK in shown
    assert not leaks(text, shown)


@pytest.mark.parametrize("name", GUESSED)
def test_a_guess_changes_nothing_that_is_recorded(name: str) -> None:
    text = f"before {GUESSED[name]} and behind"
    assert Redactor().text(text) == text
    assert Redactor().json({"password": text, "argv": ["--token", text]})["password"] == text
    trickle = Trickle(Redactor())
    assert "".join([*(trickle.feed(part) for part in text), trickle.end()]) == text


@pytest.mark.parametrize("size", [1, 3, 8, 1000])
@pytest.mark.parametrize("name", CERTAIN)
def test_a_secret_is_not_shown_in_pieces(name: str, size: int) -> None:
    text = f"before it, {CERTAIN[name]}\nand behind it come more words than a name looks over."
    trickle = Trickle(Redactor())
    parts = [trickle.feed(text[at : at + size]) for at in range(0, len(text), size)]
    shown = "".join([*parts, trickle.end()])
    assert not leaks(text, shown)
    assert MARK in shown
    assert shown.startswith("before it, ")
    assert shown.endswith("looks over.")


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_is_taken_out_wherever_it_stands(name: str) -> None:
    token = TOKENS[name]
    for form in ('["{}"]', "({})", "x={};", "{}\n", "<a>{}</a>", "`{}`", '{{\\"a\\": \\"{}\\"}}'):
        assert token not in Redactor(guesses=True).text(form.format(token)), form


def test_names_and_values_in_json() -> None:
    given = {
        "env": [
            {"name": "DB_PASSWORD", "value": "correcthorse"},
            {"name": "PORT", "value": "8080"},
        ],
        "argv": ["tool", "--token", KEY, "--verbose", "correcthorse"],
        "headers": [["X-Api-Key", KEY], ["Accept", "application/json"]],
        "dbPassword": "correcthorse",
        "pin": {"otp_secret": 12345678},
    }
    kept = {
        "env": [{"name": "DB_PASSWORD", "value": MARK}, {"name": "PORT", "value": "8080"}],
        "argv": ["tool", "--token", MARK, "--verbose", "correcthorse"],
        "headers": [["X-Api-Key", MARK], ["Accept", "application/json"]],
        "dbPassword": MARK,
        "pin": {"otp_secret": MARK},
    }
    assert Redactor(guesses=True).json(given) == kept
    assert Redactor().json(given) is given
    assert redact_json(Redactor(), given) is given
    act = Act(Thought(0, 0, ""), (Action("call", {"body": given}, "", "1"),))
    assert redact_step(Redactor(), act) == act


def test_a_secret_that_was_named_once_is_hidden_where_it_stands_alone() -> None:
    text = f"password={KEY}\nthen we saw {KEY} again"
    assert KEY not in Redactor(guesses=True).text(text)


ORDINARY = (
    "password = getpass.getpass()",
    'password = os.environ["DB_PASSWORD"]',
    "password: str",
    "def login(self, password: str, token: str | None = None) -> Session:",
    "if password != expected_password:",
    "DB_PASSWORD=${DB_PASSWORD}",
    "api_key: {{ .Values.apiKey }}",
    "password: $(cat /run/secrets/db)",
    "token = next(tokens)",
    "const key = Object.keys(value)[0];",
    "for key, value in sorted(pairs.items()):",
    '"key": "user_name"',
    'primary_key = "customer_id"',
    'cache_key = "user:42:profile:v2"',
    "max_tokens=4096",
    '{"prompt_tokens": 1024, "completion_tokens": 256}',
    "the password must have at least 8 characters",
    "Password:",
    "label: Password",
    "https://example.org:8080/path?page=2&sort=key",
    "git commit 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id = 550e8400-e29b-41d4-a716-446655440000",
    "sk-learn and sk-image are libraries",
    "key-value store, token-based, session-scoped",
    "import { authMiddleware } from './auth';",
    "#[derive(Debug)] pub struct Token { kind: TokenKind }",
    "SECRET_KEY_PATH=/run/secrets/key.pem",
    "Authorization: Bearer <token>",
    "curl -s https://example.org/api",
    "tokenizer = AutoTokenizer.from_pretrained(name)",
    "password: Optional[str] = None",
    "password: str = get(name)[0]",
    "password = getpass.getpass().strip()",
    "password = this.password!",
    "password: password1,",
    "self.api_key = SecretStr(chosen) if chosen else None",
    "basic_credentials = base64.b64encode(user_pass_bytes).decode()",
    'token = format!("{}", x)',
    "api_key: &str,",
    "password=*args.password",
    "password: !vault |",
    "password: $DB_PASSWORD",
    "password: <your password>",
    "Authorization: Bearer {self.token}",
    "PASSWORD=/run/secrets/password",
    "the password is stored hashed",
    "tool --token TOKEN, --password to be asked for it",
)


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_text_stays(line: str) -> None:
    assert Redactor(guesses=True).text(f"{line}\nmore") == f"{line}\nmore"


PRINTABLE = {
    "letters and digits": (12, LETTERS),
    "an exclamation mark": (12, LETTERS + "!" * 6),
    "signs": (14, LETTERS + "!@#$%^&*"),
    "brackets": (16, LETTERS + "()[]{}!"),
}
MOST_SHOWN = {
    # of a hundred random values; the rest consists of letters that could be an identifier
    "password: {}": 5,
    "  password: {}  # of the database": 5,
    "password = {}": 5,
    "db.password={}": 5,
    "Your password is {}": 5,
    "tool --password {}": 5,
    "PASSWORD={}": 2,
    '{{"password": "{}"}}': 4,
}
WORDS = [
    "Summer",
    "Winter",
    "Welcome",
    "Password",
    "Company",
    "London",
    "Secret",
    "Admin",
    "Dragon",
    "Monday",
]


@pytest.mark.parametrize("kind", PRINTABLE)
@pytest.mark.parametrize("form", MOST_SHOWN)
def test_a_password_of_any_characters_is_hidden(form: str, kind: str) -> None:
    """Drawn from several alphabets and seeds: brackets and signs do not make it a program."""
    length, alphabet = PRINTABLE[kind]
    for seed in range(4):
        source, redactor = Random(seed), Redactor(guesses=True)
        values = ["".join(source.choices(alphabet, k=length)) for _ in range(200)]
        shown = [value for value in values if value in redactor.text(form.format(value))]
        assert len(shown) <= 2 * MOST_SHOWN[form], shown


@pytest.mark.parametrize("kind", PRINTABLE)
def test_a_member_of_an_object_is_data_and_never_a_program(kind: str) -> None:
    length, alphabet = PRINTABLE[kind]
    source, redactor = Random(7), Redactor(guesses=True)
    values = ["".join(source.choices(alphabet, k=length)) for _ in range(500)]
    shown = [value for value in values if redactor.json({"password": value})["password"] != MARK]
    assert len(shown) <= 5, shown
    code = {"password": "get_token()", "api_key": 'os.environ["X"]'}
    assert redactor.json(code) == {"password": MARK, "api_key": MARK}


@pytest.mark.parametrize(
    "form", ["password: {}", "db_password = {}\n", "PASSWORD={}", "pass: {}\r"]
)
def test_a_password_that_somebody_thought_of_is_hidden(form: str) -> None:
    """A word, its number and a sign."""
    shown = [
        value
        for word in WORDS
        for number in ("1", "99", "123", "2024")
        for sign in "!@#$*?."
        if (value := f"{word}{number}{sign}") in Redactor(guesses=True).text(form.format(value))
    ]
    assert not shown


BOMBS = (
    *("key=", "key= ", "password: ", "password='", "password=[{(", "-----BEGIN PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----abc\n", "curl -u ", "://a:b", "authorization:", "sk-", "_", "\\"),
    *("%", "%C3", "\\xf0", "\\ud83d", "&a", "=C3", "\n", "\n12 ", "\n-", "' ", "p%26ss", "..."),
    *('"name": "TOKEN", ', "<password>", '"key","', "token=${", "bearer ", "eyJaaaaaaaaaaaa."),
)
ATTEMPT = """
import sys
from taofold.policy.redaction import Redactor
redactor = Redactor(["p&ss w-0rd", "\\n12 -…"], guesses=True)
redactor.spans(sys.argv[1] * (120_000 // len(sys.argv[1])))
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_text_takes_more_than_linear_time(bomb: str) -> None:
    """120,000 characters take about a second at most. Quadratic time takes minutes."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT, bomb], preexec_fn=bounded, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-300:]
