//! May this action happen? Allow, ask or deny, by tiers, roles and the effect of a tool.

use std::collections::{BTreeMap, BTreeSet};

use blake2::digest::consts::U6;
use blake2::{Blake2b, Digest};
use serde::{Deserialize, Serialize};

use crate::content::hex;
use crate::events::Verdict;
use crate::json::{Value, json};
use crate::policy::Roles;
use crate::values::{Action, Deciders, Principal, Sideeffect};

/// How much say a person has before an action runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Tier {
    /// None.
    #[default]
    Auto = 1,
    /// A person is asked, unless the policy is autonomous.
    Card = 2,
    /// A person is always asked.
    Confirm = 3,
    /// It never runs.
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

/// How much an agent does without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Autonomy {
    /// Everything that writes asks.
    Conservative,
    /// Tier 2 asks.
    #[default]
    Balanced,
    /// Only tier 3 asks.
    Autonomous,
}

/// What the policy needs to know of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The tier it declares.
    pub tier: Tier,
    /// What it does to the world.
    pub effect: Sideeffect,
    /// The role it declares.
    pub role: String,
    /// Whether it is an agent, whose own run asks about each of its calls, under this policy too.
    pub delegated: bool,
}

/// The policy's word on one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The tier under this policy.
    pub tier: Tier,
    /// Why.
    pub reason: String,
}

/// The policy of approvals.
///
/// `tiers` and `required` only raise what a tool declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The dial.
    pub autonomy: Autonomy,
    /// Tiers by tool.
    pub tiers: BTreeMap<String, Tier>,
    /// The only tools that may run; `None`: all.
    pub allow: Option<BTreeSet<String>>,
    /// Tools that may not run.
    pub deny: BTreeSet<String>,
    /// The roles and their levels.
    pub roles: Roles,
    /// Roles by tool.
    pub required: BTreeMap<String, String>,
    /// Whether this is production.
    pub production: bool,
    /// Tiers by tool in production.
    pub production_tiers: BTreeMap<String, Tier>,
    /// The role that may approve runs of others; empty: only the requester decides.
    pub approvers: String,
    /// Whether a requester may approve the actions of a run of their own.
    pub own_approval: bool,
    /// The role that a requester needs for it.
    pub approve_own: String,
    /// Seconds for which a question stays open; 0: no bound.
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
    /// Returns a digest of everything that could change a ruling; approvals are bound to it. It is
    /// the same as the Python runtime's for the same policy.
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

    /// Returns who may decide on an action of `tool`, which declares `role`.
    pub fn deciders(&self, tool: &str, role: &str) -> Deciders {
        let required = self.required.get(tool).map_or("", String::as_str);
        let roles = [required, role].into_iter().filter(|it| !it.is_empty());
        Deciders {
            own: self.own_approval.then(|| self.approve_own.clone()),
            others: self.approvers.clone(),
            roles: roles.map(str::to_owned).collect(),
        }
    }

    /// Returns this policy and another at once, whichever is stricter in each point. `self` is the
    /// authority: roles have its levels, and only it says who approves.
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
        // 0 means no bound: it is not the smallest one.
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
    /// A `critical` exception of the agent only asks, it never opens.
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
        // Denials first, the dial last: no setting below can allow what one above has refused.
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
            // Else a person is asked twice about the same.
            return ruling(Verdict::Allow, tier, String::new());
        }
        self.dial(tier, facts)
    }

    fn raises(&self, name: &str) -> bool {
        self.tiers.contains_key(name)
            || (self.production && self.production_tiers.contains_key(name))
    }

    /// Returns the tool's tier under this policy: never lower than declared.
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

/// Says why `decider` is none of the `deciders` on the requester's action.
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
        // An empty role is no role that a right could be given to.
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
