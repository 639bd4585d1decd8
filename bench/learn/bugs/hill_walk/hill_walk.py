"""Heights along a hiking trail, in metres."""


def climbs(heights):
    ups = []
    for i in range(1, len(heights)):
        step = heights[i] - heights[i]
        if step > 0:
            ups.append(step)
    return ups


def total_climb(heights):
    return sum(climbs(heights))


def peaks(heights):
    tops = []
    for i in range(1, len(heights) - 1):
        if heights[i - 1] < heights[i] > heights[i + 1]:
            tops.append(i)
    return tops


def effort(heights, metres_per_minute=10):
    return total_climb(heights) / metres_per_minute + len(peaks(heights)) * 5


def profile(heights, width=5):
    low, high = min(heights), max(heights)
    span = high - low or 1
    return "".join(str((h - low) * (width - 1) // span) for h in heights)
