//! Policy files, and the combination of two policies: a project's can only tighten the operator's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::errors::ConfigError;
use crate::json::Value;
use crate::policy::{Autonomy, Policy, Roles, Tier};

/// The keys of a policy file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyKeys {
    autonomy: Option<Autonomy>,
    tiers: Option<BTreeMap<String, Tier>>,
    allow: Option<BTreeSet<String>>,
    deny: Option<BTreeSet<String>>,
    roles: Option<BTreeMap<String, u32>>,
    required: Option<BTreeMap<String, String>>,
    production: Option<bool>,
    production_tiers: Option<BTreeMap<String, Tier>>,
    approvers: Option<String>,
    own_approval: Option<bool>,
    approve_seconds: Option<f64>,
    rights: Option<BTreeMap<String, String>>,
}

impl PolicyKeys {
    pub(super) fn read(value: Value, path: &str) -> Result<Self, ConfigError> {
        let keys: Self = ConfigError::reading(path, value)?;
        match keys.approve_seconds {
            Some(seconds) if !(seconds.is_finite() && seconds >= 0.0) => Err(ConfigError::new(
                format!("{path}.approve_seconds"),
                "must be 0 or more",
            )),
            _ => Ok(keys),
        }
    }

    /// Returns `base` with the settings of this file changed.
    pub(super) fn over(&self, base: &Policy) -> Policy {
        let rights = self.rights.as_ref();
        let own = rights.and_then(|rights| rights.get("approve_own"));
        Policy {
            autonomy: self.autonomy.unwrap_or(base.autonomy),
            tiers: self.tiers.clone().unwrap_or_else(|| base.tiers.clone()),
            allow: self.allow.clone().or_else(|| base.allow.clone()),
            deny: self.deny.clone().unwrap_or_else(|| base.deny.clone()),
            roles: match &self.roles {
                Some(roles) => Roles::new(roles.clone()),
                None => base.roles.clone(),
            },
            required: self
                .required
                .clone()
                .unwrap_or_else(|| base.required.clone()),
            production: self.production.unwrap_or(base.production),
            production_tiers: self
                .production_tiers
                .clone()
                .unwrap_or_else(|| base.production_tiers.clone()),
            approvers: self
                .approvers
                .clone()
                .unwrap_or_else(|| base.approvers.clone()),
            own_approval: self.own_approval.unwrap_or(base.own_approval),
            approve_own: own.unwrap_or(&base.approve_own).clone(),
            approve_seconds: self.approve_seconds.unwrap_or(base.approve_seconds),
        }
    }

    /// Returns the operator's policy tightened by this one of a project.
    pub(super) fn tighten(&self, operator: &Policy, path: &str) -> Result<Policy, ConfigError> {
        let looser = |key: &str, why: String| {
            let message = format!("looser than the operator's policy ({why})");
            Err(ConfigError::new(format!("{path}.{key}"), message))
        };
        let foreign = [
            ("roles", self.roles.is_some()),
            ("approvers", self.approvers.is_some()),
            ("rights", self.rights.is_some()),
        ];
        if let Some((key, _)) = foreign.into_iter().find(|(_, said)| *said) {
            return looser(key, "only the operator's policy says this".to_owned());
        }
        let project = self.over(operator);
        if project.autonomy > operator.autonomy {
            let (own, his) = (project.autonomy, operator.autonomy);
            return looser("autonomy", format!("{own:?} is looser than {his:?}"));
        }
        for (key, own, his) in [
            ("tiers", &project.tiers, &operator.tiers),
            (
                "production_tiers",
                &project.production_tiers,
                &operator.production_tiers,
            ),
        ] {
            let lower =
                |(tool, tier): &(&String, &Tier)| own.get(*tool).is_some_and(|it| it < *tier);
            if let Some((tool, tier)) = his.iter().find(lower) {
                return looser(
                    &format!("{key}.{tool}"),
                    format!("at least {}", u8::from(*tier)),
                );
            }
        }
        if operator.production && !project.production {
            return looser("production", "false is looser than true".to_owned());
        }
        if let (Some(own), Some(his)) = (&project.allow, &operator.allow)
            && let Some(tool) = own.difference(his).next()
        {
            return looser("allow", format!("{tool:?} is not allowed"));
        }
        let height = |role: &str| operator.roles.height(role);
        for (tool, role) in &operator.required {
            let own = project.required.get(tool).unwrap_or(role);
            if height(own) < height(role) {
                return looser(
                    &format!("required.{tool}"),
                    format!("{own} is below {role}"),
                );
            }
        }
        if project.own_approval && !operator.own_approval {
            return looser("own_approval", "true is looser than false".to_owned());
        }
        let (own, his) = (project.approve_seconds, operator.approve_seconds);
        if his > 0.0 && !(own > 0.0 && own <= his) {
            return looser("approve_seconds", format!("at most {his} is allowed"));
        }
        Ok(operator.tightened(&project))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn tightened(operator: &Value, project: &Value) -> Result<Policy, String> {
        let read = |value: &Value| PolicyKeys::read(value.clone(), "policy").unwrap();
        let operator = read(operator).over(&Policy::default());
        let keys = read(project);
        keys.tighten(&operator, "policy")
            .map_err(|error| error.path)
    }

    #[test]
    fn a_project_may_tighten_and_never_loosen() {
        let operator = json!({
            "autonomy": "balanced", "tiers": {"a": 3}, "deny": ["x"], "allow": ["a", "b"],
            "required": {"a": "EDITOR"}, "production": true, "approve_seconds": 60,
        });
        for (project, place) in [
            (json!({"autonomy": "autonomous"}), "policy.autonomy"),
            (json!({"tiers": {"a": 2}}), "policy.tiers.a"),
            (json!({"allow": ["c"]}), "policy.allow"),
            (json!({"required": {"a": "VIEWER"}}), "policy.required.a"),
            (json!({"production": false}), "policy.production"),
            (json!({"approve_seconds": 0}), "policy.approve_seconds"),
            (json!({"approvers": "ADMIN"}), "policy.approvers"),
            (
                json!({"rights": {"approve_own": "VIEWER"}}),
                "policy.rights",
            ),
        ] {
            assert_eq!(tightened(&operator, &project).unwrap_err(), place);
        }
        let policy = tightened(&operator, &json!({"deny": ["y"], "tiers": {"b": 4}})).unwrap();
        assert_eq!(policy.deny, ["x", "y"].map(str::to_owned).into());
        assert_eq!(policy.tiers["a"], Tier::Confirm);
        assert_eq!(policy.tiers["b"], Tier::Forbidden);
    }
}
