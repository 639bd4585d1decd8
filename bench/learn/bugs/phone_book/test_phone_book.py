from phone_book import area_code, find, listing

PEOPLE = [{"name": "Ana", "phone": "+49 30 123"}, {"name": "Bo"}]


def test_find():
    assert find(PEOPLE, "Bo") == {"name": "Bo"}
    assert find(PEOPLE, "Cy") is None


def test_area_code():
    assert area_code(PEOPLE, "Ana") == "49"
    assert area_code(PEOPLE, "Bo") == ""


def test_area_code_of_nobody():
    assert area_code(PEOPLE, "Cy") is None


def test_listing():
    assert listing(PEOPLE) == ["Ana +49 30 123", "Bo -"]
