"""Displays of commands: `tables`, running runs (`story`, with colours in `rich_voice`), recorded
runs (`runs`), running loops (`loops`), patterns (`patterns`) and prompts (`prompts`).
"""
