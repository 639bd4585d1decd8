"""What commands show: `tables`, the `story` of a run in steps, in a pipe or in colour
(`rich_voice`), recorded runs (`runs`), a loop as it goes (`loops`), what was learnt (`patterns`).
"""
