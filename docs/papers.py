"""Web addresses of the papers that docstrings cite, and a function that turns citations into links."""

import re
from collections.abc import Callable

_ARXIV = {
    "Abnar and Zuidema 2020": "2005.00928",
    "Ainslie et al. 2023": "2305.13245",
    "Bahdanau, Cho, Bengio 2015": "1409.0473",
    "Bello et al. 2017": "1611.09940",
    "Beltagy, Peters, Cohan 2020": "2004.05150",
    "Chen et al. 2023": "2306.15595",
    "Chiu & Raffel 2018": "1712.05382",
    "Chorowski et al. 2015": "1506.07503",
    "Correia, Niculae, Martins 2019": "1909.00015",
    "DeepSeek-AI 2024": "2405.04434",
    "DeYoung et al. 2020": "1911.03429",
    "Eikema & Aziz 2020": "2005.10283",
    "Fan et al. 2018": "1805.04833",
    "Garg, Peitz, Nallasamy, Paulik 2019": "1909.02074",
    "Gehring et al. 2017": "1705.03122",
    "Gemma team 2024": "2408.00118",
    "Golovneva et al. 2024": "2405.18719",
    "Graves, Wayne, Danihelka 2014": "1410.5401",
    "Guo et al. 2017": "1706.04599",
    "Henry et al. 2020": "2010.04245",
    "Hinton, Vinyals, Dean 2015": "1503.02531",
    "Holtzman et al. 2020": "1904.09751",
    "Ilse et al. 2018": "1802.04712",
    "Ilse, Tomczak, Welling 2018": "1802.04712",
    "Jain and Wallace 2019": "1902.10186",
    "Katharopoulos et al. 2020": "2006.16236",
    "Kim & Rush 2016": "1606.07947",
    "Kobayashi et al. 2020": "2004.10102",
    "Kobayashi, Kuribayashi, Yokoi, Inui 2020": "2004.10102",
    "Lin et al. 2017": "1703.03130",
    "Lin et al. 2025": "2503.02130",
    "Liu et al. 2022": "2111.09883",
    "Llama team 2024": "2407.21783",
    "Luong, Pham, Manning 2015": "1508.04025",
    "Martins, Astudillo 2016": "1602.02068",
    "Murray and Chiang 2018": "1808.10006",
    "OpenAI 2025": "2508.10925",
    "Peng et al. 2023": "2309.00071",
    "Peters, Niculae, Martins 2019": "1905.05702",
    "Post & Vilar 2018": "1804.06609",
    "Post 2018": "1804.08771",
    "Press and Wolf 2017": "1608.05859",
    "Press, Smith, Lewis 2022": "2108.12409",
    "Qiu et al. 2025": "2505.06708",
    "Qwen team 2025": "2505.09388",
    "Raffel et al. 2017": "1704.00784",
    "Raffel et al. 2020": "1910.10683",
    "Ramapuram et al. 2024": "2409.04431",
    "Schlag et al. 2021": "2102.11174",
    "See, Liu, Manning 2017": "1704.04368",
    "Seo et al. 2017": "1611.01603",
    "Shazeer 2019": "1911.02150",
    "Shazeer 2020": "2002.05202",
    "Shazeer et al. 2020": "2003.02436",
    "Su et al. 2021": "2104.09864",
    "Tan et al. 2025": "2410.17980",
    "Tu et al. 2016": "1601.04811",
    "Vaswani et al. 2017": "1706.03762",
    "Wiegreffe and Pinter 2019": "1908.04626",
    "Wiegreffe, Pinter 2019": "1908.04626",
    "Wu et al. 2016": "1609.08144",
    "Xiong et al. 2020": "2002.04745",
    "Yang, Kautz, Hatamizadeh 2025": "2412.06464",
    "Ye et al. 2024": "2410.05258",
    "Zuhri, Fuadi, Aji 2025": "2504.20966",
}
PAPERS = {name: f"https://arxiv.org/abs/{number}" for name, number in _ARXIV.items()} | {
    "Miller 2023": "https://www.evanmiller.org/attention-is-off-by-one.html",
    "Yang et al. 2016": "https://aclanthology.org/N16-1174/",
}
_CITATION = re.compile(rf"\b({'|'.join(re.escape(name) for name in sorted(PAPERS, key=len, reverse=True))})")


def link_papers(text: str, link: Callable[[str, str], str]) -> str:
    """Replace each citation in a text with a link.

    Args:
        text: A docstring, or a part of one.
        link: Function that returns a link, given a citation and the address of its paper.
    """
    return _CITATION.sub(lambda found: link(found[0], PAPERS[found[0]]), text)
