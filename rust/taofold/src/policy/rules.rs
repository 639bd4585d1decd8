//! The rules that allow, ask about or deny an action, by tier, role and side effect.

use std::collections::{BTreeMap, BTreeSet};

use blake2::digest::consts::U6;
use blake2::{Blake2b, Digest};
use serde::{Deserialize, Serialize};

use crate::content::hex;
use crate::events::Verdict;
use crate::json::{Value, json};
use crate::policy::Roles;
use crate::values::{Action, Deciders, Principal, Sideeffect};

/// The approval tier of an action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Tier {
    /// The action runs without approval.
    #[default]
    Auto = 1,
    /// The action needs an approval, unless the policy is autonomous.
    Card = 2,
    /// The action always needs an approval.
    Confirm = 3,
    /// The action never runs.
    Forbidden = 4,
}

impl From<Tier> for u8 {
    fn from(tier: Tier) -> Self {
        tier as Self
    }
}

impl TryFrom<u8> for Tier {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Auto),
            2 => Ok(Self::Card),
            3 => Ok(Self::Confirm),
            4 => Ok(Self::Forbidden),
            _ => Err(format!("a tier is 1 to 4, not {number}")),
        }
    }
}

/// The degree to which an agent acts without approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Autonomy {
    /// Every write needs an approval.
    Conservative,
    /// Tier 2 needs an approval.
    #[default]
    Balanced,
    /// Only tier 3 needs an approval.
    Autonomous,
}

/// The properties of a tool that the policy uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The declared tier.
    pub tier: Tier,
    /// The side effect.
    pub effect: Sideeffect,
    /// The declared role.
    pub role: String,
    /// True for an agent whose own run asks about each of its calls under this policy.
    pub delegated: bool,
}

/// The policy's ruling on one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict: allow, ask or deny.
    pub verdict: Verdict,
    /// The tier under this policy.
    pub tier: Tier,
    /// The reason.
    pub reason: String,
}

/// The approval policy.
///
/// `tiers` and `required` can only raise a tool's declared values.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The degree of autonomy.
    pub autonomy: Autonomy,
    /// Tiers by tool.
    pub tiers: BTreeMap<String, Tier>,
    /// The only tools that may run; `None` for all.
    pub allow: Option<BTreeSet<String>>,
    /// Tools that must not run.
    pub deny: BTreeSet<String>,
    /// The roles and their levels.
    pub roles: Roles,
    /// Roles by tool.
    pub required: BTreeMap<String, String>,
    /// True in production.
    pub production: bool,
    /// Tiers by tool in production.
    pub production_tiers: BTreeMap<String, Tier>,
    /// The role that may approve runs of others; if empty, only the requester decides.
    pub approvers: String,
    /// True if requesters may approve the actions of their own runs.
    pub own_approval: bool,
    /// The role that a requester needs for `own_approval`.
    pub approve_own: String,
    /// The seconds after which a question expires; 0 for no expiry.
    pub approve_seconds: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            autonomy: Autonomy::default(),
            tiers: BTreeMap::new(),
            allow: None,
            deny: BTreeSet::new(),
            roles: Roles::default(),
            required: BTreeMap::new(),
            production: false,
            production_tiers: BTreeMap::new(),
            approvers: String::new(),
            own_approval: true,
            approve_own: "USER".to_owned(),
            approve_seconds: 0.0,
        }
    }
}

impl Policy {
    /// Returns a digest of all settings that can change a ruling. Approvals are bound to it.
    ///
    /// The digest equals the Python runtime's for the same policy.
    pub fn version(&self) -> String {
        let pairs = |tiers: &BTreeMap<String, Tier>| -> Vec<Value> {
            let pair = |(tool, tier): (&String, &Tier)| json!([tool, u8::from(*tier)]);
            tiers.iter().map(pair).collect()
        };
        let message = json!([
            self.autonomy,
            pairs(&self.tiers),
            self.allow,
            self.deny,
            self.roles.levels().collect::<Vec<_>>(),
            self.required.iter().collect::<Vec<_>>(),
            self.production,
            pairs(&self.production_tiers),
            self.approvers,
            self.own_approval,
        ]);
        hex(&Blake2b::<U6>::digest(message.to_string()))
    }

    /// Returns the principals that may decide on an action of `tool`, which declares `role`.
    pub fn deciders(&self, tool: &str, role: &str) -> Deciders {
        let required = self.required.get(tool).map_or("", String::as_str);
        let roles = [required, role].into_iter().filter(|it| !it.is_empty());
        Deciders {
            own: self.own_approval.then(|| self.approve_own.clone()),
            others: self.approvers.clone(),
            roles: roles.map(str::to_owned).collect(),
        }
    }

    /// Returns the stricter combination of this policy and another.
    ///
    /// `self` is the authority: its levels apply to roles, and only its settings select the
    /// approvers.
    #[must_use]
    pub fn tightened(&self, other: &Self) -> Self {
        let higher = |own: &BTreeMap<String, Tier>, more: &BTreeMap<String, Tier>| {
            let mut tiers = own.clone();
            for (tool, tier) in more {
                let entry = tiers.entry(tool.clone()).or_default();
                *entry = (*entry).max(*tier);
            }
            tiers
        };
        let allow = match (&self.allow, &other.allow) {
            (Some(own), Some(more)) => Some(own & more),
            (own, more) => own.clone().or_else(|| more.clone()),
        };
        let mut required = self.required.clone();
        for (tool, role) in &other.required {
            let own = required.get(tool).map_or("", String::as_str);
            if self.roles.height(role) > self.roles.height(own) {
                required.insert(tool.clone(), role.clone());
            }
        }
        // 0 means no bound, not the smallest one.
        let bounds = [self.approve_seconds, other.approve_seconds];
        let bounded = bounds.into_iter().filter(|it| *it > 0.0);
        Self {
            autonomy: self.autonomy.min(other.autonomy),
            tiers: higher(&self.tiers, &other.tiers),
            allow,
            deny: &self.deny | &other.deny,
            roles: self.roles.clone(),
            required,
            production: self.production || other.production,
            production_tiers: higher(&self.production_tiers, &other.production_tiers),
            approvers: self.approvers.clone(),
            own_approval: self.own_approval && other.own_approval,
            approve_own: self.approve_own.clone(),
            approve_seconds: bounded.reduce(f64::min).unwrap_or_default(),
        }
    }

    /// Decides about one action of a known tool.
    ///
    /// A `critical` exception of the agent can only require an approval, never permit an action.
    pub fn rule(
        &self,
        action: &Action,
        facts: &Facts,
        principal: &Principal,
        critical: bool,
    ) -> Ruling {
        let name = &action.tool;
        let tier = self.tier(name, facts);
        let ruling = |verdict, tier, reason: String| Ruling {
            verdict,
            tier,
            reason,
        };
        // Denials come first and autonomy last: a later setting cannot allow an action that an
        // earlier one refused.
        if self.deny.contains(name) || self.allow.as_ref().is_some_and(|it| !it.contains(name)) {
            return ruling(Verdict::Deny, tier, format!("the policy forbids {name:?}"));
        }
        let required = [
            self.required.get(name).map_or("", String::as_str),
            &facts.role,
        ];
        if let Some(role) = required
            .into_iter()
            .find(|role| !self.roles.may(&principal.roles, role))
        {
            let reason = format!("access denied: requires role {role}");
            return ruling(Verdict::Deny, tier, reason);
        }
        if tier >= Tier::Forbidden {
            let reason = format!("{name:?} is forbidden (tier 4)");
            return ruling(Verdict::Deny, tier, reason);
        }
        if critical {
            let reason = "the agent flagged a critical exception".to_owned();
            return ruling(Verdict::Ask, tier.max(Tier::Card), reason);
        }
        if facts.delegated && !self.raises(name) {
            // Otherwise the approver would be asked twice about the same call.
            return ruling(Verdict::Allow, tier, String::new());
        }
        self.dial(tier, facts)
    }

    fn raises(&self, name: &str) -> bool {
        self.tiers.contains_key(name)
            || (self.production && self.production_tiers.contains_key(name))
    }

    /// Returns the tool's tier under this policy, which is never lower than the declared one.
    pub fn tier(&self, name: &str, facts: &Facts) -> Tier {
        let own = self.tiers.get(name).copied().unwrap_or_default();
        let production = self.production_tiers.get(name).copied();
        let raised = production.filter(|_| self.production).unwrap_or_default();
        facts.tier.max(own).max(raised)
    }

    fn dial(&self, tier: Tier, facts: &Facts) -> Ruling {
        let (verdict, tier, reason) = if tier == Tier::Confirm {
            (Verdict::Ask, tier, "tier 3 always asks")
        } else if self.autonomy == Autonomy::Conservative && facts.effect != Sideeffect::Read {
            let reason = "conservative: everything that writes asks";
            (Verdict::Ask, tier.max(Tier::Card), reason)
        } else if tier == Tier::Card && self.autonomy != Autonomy::Autonomous {
            (Verdict::Ask, tier, "tier 2 asks")
        } else {
            (Verdict::Allow, tier, "")
        };
        Ruling {
            verdict,
            tier,
            reason: reason.to_owned(),
        }
    }
}

/// Checks that `decider` is one of the `deciders` on the requester's action.
///
/// # Errors
///
/// The message for the principal that tried.
pub fn may_decide(
    deciders: &Deciders,
    decider: &Principal,
    requester: &Principal,
    roles: &Roles,
) -> Result<(), String> {
    if decider.id.starts_with("agent:") {
        return Err("an agent may not approve".to_owned());
    }
    if decider.id == requester.id {
        let Some(own) = &deciders.own else {
            return Err("the requester may not approve their own actions here".to_owned());
        };
        // An empty role cannot grant a right.
        if own.is_empty() || !roles.may(&decider.roles, own) {
            return Err(format!(
                "access denied: approve_own requires the role {own}"
            ));
        }
    } else if deciders.others.is_empty() || !roles.may(&decider.roles, &deciders.others) {
        return Err(format!(
            "not yours to decide: the run belongs to {:?}",
            requester.id
        ));
    }
    let lacking = deciders
        .roles
        .iter()
        .find(|role| !roles.may(&decider.roles, role));
    match lacking {
        Some(role) => Err(format!("access denied: requires role {role}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Object;

    fn verdict(policy: &Policy, facts: &Facts, roles: &[&str], critical: bool) -> Verdict {
        let principal = Principal {
            id: "ann".into(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        };
        let action = Action::new("deploy", Object::new());
        policy.rule(&action, facts, &principal, critical).verdict
    }

    #[test]
    fn a_policy_raises_a_tier_and_never_lowers_it() {
        let mut policy = Policy::default();
        policy.tiers.insert("deploy".into(), Tier::Auto);
        let facts = Facts {
            tier: Tier::Confirm,
            ..Facts::default()
        };
        assert_eq!(verdict(&policy, &facts, &["ADMIN"], false), Verdict::Ask);
        policy.tiers.insert("deploy".into(), Tier::Forbidden);
        assert_eq!(verdict(&policy, &facts, &["ADMIN"], false), Verdict::Deny);
    }

    #[test]
    fn autonomy_does_not_reach_tier_3() {
        let policy = Policy {
            autonomy: Autonomy::Autonomous,
            ..Policy::default()
        };
        let of = |tier| Facts {
            tier,
            ..Facts::default()
        };
        assert_eq!(
            verdict(&policy, &of(Tier::Card), &["USER"], false),
            Verdict::Allow
        );
        assert_eq!(
            verdict(&policy, &of(Tier::Confirm), &["USER"], false),
            Verdict::Ask
        );
    }

    #[test]
    fn a_critical_exception_asks_and_opens_nothing() {
        let mut policy = Policy::default();
        let facts = Facts::default();
        assert_eq!(verdict(&policy, &facts, &["USER"], true), Verdict::Ask);
        policy.deny.insert("deploy".into());
        assert_eq!(verdict(&policy, &facts, &["USER"], true), Verdict::Deny);
    }

    #[test]
    fn an_allow_list_forbids_all_others_and_a_role_is_needed() {
        let mut policy = Policy {
            allow: Some(BTreeSet::from(["read".to_owned()])),
            ..Policy::default()
        };
        let facts = Facts::default();
        assert_eq!(verdict(&policy, &facts, &["ADMIN"], false), Verdict::Deny);
        policy.allow = None;
        policy.required.insert("deploy".into(), "ADMIN".into());
        assert_eq!(verdict(&policy, &facts, &["USER"], false), Verdict::Deny);
        assert_eq!(verdict(&policy, &facts, &["ADMIN"], false), Verdict::Allow);
    }
}
