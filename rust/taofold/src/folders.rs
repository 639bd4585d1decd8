//! The user's folders, as the XDG Base Directory Specification defines them.
//!
//! They hold data of the user that belongs to no project: policies, accepted servers, the secret of
//! logs.

use std::path::{Path, PathBuf};

/// Returns the operator's folder; `None` without a home. `variable` reads the environment.
pub(crate) fn operator_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    folder(variable, "XDG_CONFIG_HOME", ".config")
}

/// Returns the folder of state that outlives a project; `None` without a home.
pub(crate) fn state_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    folder(variable, "XDG_STATE_HOME", ".local/state")
}

fn folder(
    variable: impl Fn(&str) -> Option<PathBuf>,
    name: &str,
    otherwise: impl AsRef<Path>,
) -> Option<PathBuf> {
    // The specification requires that relative paths are ignored.
    let set = variable(name).filter(|it| it.is_absolute());
    let base = set.or_else(|| Some(variable("HOME")?.join(otherwise)));
    base.map(|it| it.join("taofold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_goes_before_the_home_and_a_relative_one_is_ignored() {
        let found = |set: &'static str| {
            state_folder(move |name| match name {
                "XDG_STATE_HOME" => Some(PathBuf::from(set)),
                "HOME" => Some(PathBuf::from("/home/ada")),
                _ => None,
            })
        };
        assert_eq!(found("/state"), Some(PathBuf::from("/state/taofold")));
        let own = PathBuf::from("/home/ada/.local/state/taofold");
        assert_eq!(found("state"), Some(own));
        assert_eq!(operator_folder(|_| None), None);
    }
}
