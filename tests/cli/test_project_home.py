"""Location of a project's folder."""

from pathlib import Path

from taofold.cli.project import home


def test_the_nearest_folder_upwards_is_the_projects(tmp_path: Path) -> None:
    (tmp_path / ".taofold").mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert home({}, below) == tmp_path / ".taofold"


def test_a_git_repository_is_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".taofold").mkdir()
    repository = tmp_path / "mine"
    (repository / "src").mkdir(parents=True)
    (repository / ".git").mkdir()
    assert home({}, repository) == repository / ".taofold"
    assert home({}, repository / "src") == repository / ".taofold"
    (repository / "src" / ".taofold").mkdir()
    assert home({}, repository / "src") == repository / "src" / ".taofold"


def test_a_linked_worktree_is_a_repository_too(tmp_path: Path) -> None:
    (tmp_path / ".taofold").mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    assert home({}, tree) == tree / ".taofold"
