//! The hierarchy of roles. Unknown roles and unknown requirements deny.

use std::collections::BTreeMap;

/// Roles with their levels. A role reaches every requirement of its level or below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(BTreeMap<String, u32>);

impl Default for Roles {
    fn default() -> Self {
        let levels = [
            ("VIEWER", 10),
            ("BILLING", 20),
            ("USER", 30),
            ("EDITOR", 30),
            ("ADMIN", 40),
        ];
        Self::new(levels.map(|(role, level)| (role.to_owned(), level)))
    }
}

impl Roles {
    /// Returns roles with these levels.
    pub fn new(levels: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(levels.into_iter().collect())
    }

    /// Returns the roles and their levels, sorted.
    pub fn levels(&self) -> impl Iterator<Item = (&String, &u32)> {
        self.0.iter()
    }

    /// Returns the level of a requirement; higher levels are reached by fewer roles.
    ///
    /// All roles reach an empty requirement; no role reaches one without a level.
    pub fn height(&self, role: &str) -> i64 {
        if role.is_empty() {
            return -1;
        }
        self.0.get(role).map_or(i64::MAX, |level| i64::from(*level))
    }

    /// Returns true if one of the `held` roles reaches `required`. Every caller reaches an empty
    /// requirement.
    pub fn may(&self, held: &[String], required: &str) -> bool {
        if required.is_empty() {
            return true;
        }
        let level = |role: &str| self.0.get(role).copied();
        let reaches = |need: u32| {
            held.iter()
                .any(|role| level(role).is_some_and(|own| own >= need))
        };
        level(required).is_some_and(reaches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_roles_and_requirements_deny() {
        let roles = Roles::default();
        let held = |role: &str| vec![role.to_owned()];
        assert!(roles.may(&held("ADMIN"), "EDITOR"));
        assert!(roles.may(&held("VIEWER"), ""));
        assert!(!roles.may(&held("VIEWER"), "EDITOR"));
        assert!(!roles.may(&held("ADMIN"), "EMPEROR"));
        assert!(!roles.may(&held("EMPEROR"), "VIEWER"));
        assert!(!roles.may(&[], "VIEWER"));
    }
}
