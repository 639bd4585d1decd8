"""Finds a slot for a job on several machines."""


def load(machine):
    return sum(minutes for _, minutes in machine)


def least_loaded(machines):
    loads = {name: load(jobs) for name, jobs in machines.items()}
    return max(loads, key=lambda name: (loads[name], name))


def place(machines, job, minutes):
    name = least_loaded(machines)
    return {**machines, name: [*machines[name], (job, minutes)]}


def plan(names, jobs):
    machines = {name: [] for name in names}
    for job, minutes in sorted(jobs, key=lambda one: -one[1]):
        machines = place(machines, job, minutes)
    return machines


def finished(machines):
    return max(load(jobs) for jobs in machines.values())


def idle(machines):
    end = finished(machines)
    return sum(end - load(jobs) for jobs in machines.values())
