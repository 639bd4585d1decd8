"""Contacts with optional numbers."""

import re


def find(contacts, name):
    for contact in contacts:
        if contact["name"] == name:
            return contact
    return None


def area_code(contacts, name):
    contact = find(contacts, name)
    number = contact.get("phone", "")
    found = re.match(r"\+?(\d{2})", number)
    return found.group(1) if found else ""


def listing(contacts):
    return [f"{c['name']} {c.get('phone', '-')}" for c in contacts]
